package measure

import "maps"

// fig7Clusters is the clustering in memory, one document after the other: what the stores are compared with.
//
// Documents are grouped by their keys of the first kind; the first of each group stands for it in the grouping by keys of the
// second kind, and the first of those in that by keys of the third. That is what three MapReduces do in a row, and what a lookup
// "in up to three index tables" does for one document (section 3.1 of the paper): it belongs to the cluster that it finds first.
// With keys as in the paper it gives clusters of 3.3 documents and leaves 7 % of all alone, which are the figures given there.
// (Clusters by whatever keys two documents have in common, at any remove, would run together to one.)
type fig7Clusters struct {
	index   [fig7Kinds]map[uint32]uint32 // canonical document by key, of the documents that take part in that grouping
	of      map[uint32]uint32            // canonical document by document
	members map[uint32]int               // by canonical document
}

func newFig7Clusters() *fig7Clusters {
	c := &fig7Clusters{of: map[uint32]uint32{}, members: map[uint32]int{}}
	for kind := range c.index {
		c.index[kind] = map[uint32]uint32{}
	}
	return c
}

// add puts the document into its cluster, and tells in how many indexes it is entered: those before the one that knew a key of
// it.
func (c *fig7Clusters) add(d fig7Document) (canonical uint32, entries int) {
	canonical, entries = d.number, fig7Kinds
	for kind, key := range d.keys {
		if found, ok := c.index[kind][key]; ok {
			canonical, entries = found, kind
			break
		}
	}
	for kind, key := range d.keys[:entries] {
		c.index[kind][key] = canonical
	}
	c.of[d.number] = canonical
	c.members[canonical]++
	return canonical, entries
}

func (c *fig7Clusters) clone() *fig7Clusters {
	out := &fig7Clusters{of: maps.Clone(c.of), members: maps.Clone(c.members)}
	for kind := range c.index {
		out.index[kind] = maps.Clone(c.index[kind])
	}
	return out
}

// entries is how many keys the indexes know.
func (c *fig7Clusters) entries() (n int) {
	for _, index := range c.index {
		n += len(index)
	}
	return n
}

// mean is how many documents a cluster has.
func (c *fig7Clusters) mean() float64 { return float64(len(c.of)) / float64(len(c.members)) }

// notAlone is the share of documents that are in a cluster of two or more.
func (c *fig7Clusters) notAlone() float64 {
	alone := 0
	for _, n := range c.members {
		if n == 1 {
			alone++
		}
	}
	return 1 - float64(alone)/float64(len(c.of))
}

// fig7Rounds is the clustering of a whole repository at once: three groupings, one after the other, as MapReduces do it.
// Documents come in the order of their numbers; the result is the canonical document of each.
func fig7Rounds(documents []fig7Document) []uint32 {
	leader := make([]int, len(documents)) // who stands for the document, itself if it does
	left := make([]int, len(documents))   // who takes part in the next round
	for i := range documents {
		leader[i], left[i] = i, i
	}
	for kind := range fig7Kinds {
		first := make(map[uint32]int, len(left))
		var next []int
		for _, i := range left {
			key := documents[i].keys[kind]
			if of, ok := first[key]; ok {
				leader[i] = of
				continue
			}
			first[key] = i
			next = append(next, i)
		}
		left = next
	}
	out := make([]uint32, len(documents))
	for i := range documents { // leaders come before those they lead
		if out[i] = documents[i].number; leader[i] != i {
			out[i] = out[leader[i]]
		}
	}
	return out
}
