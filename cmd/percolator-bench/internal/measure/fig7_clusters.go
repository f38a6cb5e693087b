package measure

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// fig7Kinds is how many clustering keys a document has. In a real system they would be a content
// hash, a redirect's target and such.
const fig7Kinds = 3

// fig7Crawl says which documents there are. Documents have numbers in the order of their arrival;
// everything else follows from the number.
type fig7Crawl struct {
	seed      uint64
	documents int    // of the repository; later ones arrive
	keys      uint32 // of each kind
}

// newFig7Crawl has three keys of each kind for four documents of the repository: the paper has 750
// million for a billion.
func newFig7Crawl(documents int, seed uint64) fig7Crawl {
	return fig7Crawl{seed: seed, documents: documents, keys: uint32(max(1, documents*3/4))}
}

// fig7Document is a document as it is stored. It has no body: clustering would not read it.
type fig7Document struct {
	number uint32
	keys   [fig7Kinds]uint32
}

// document is the n-th; its keys are uniformly random.
func (c fig7Crawl) document(n int) fig7Document {
	d := fig7Document{number: uint32(n)}
	random := rand.New(rand.NewPCG(c.seed, uint64(n)))
	for i := range d.keys {
		d.keys[i] = random.Uint32N(c.keys)
	}
	return d
}

// fig7Row is the row of a document: one that is nowhere near that of the document before it.
// Different numbers have different rows, for every step of the mixing can be undone.
func fig7Row(number uint32) string {
	z := uint64(number) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return fmt.Sprintf("%016x", z^z>>31)
}

// fig7KeyRow is the row of a key's index entry.
func fig7KeyRow(kind int, key uint32) string { return fmt.Sprintf("%d/%08x", kind, key) }

func (d fig7Document) encode() []byte {
	out := binary.BigEndian.AppendUint32(nil, d.number)
	for _, k := range d.keys {
		out = binary.BigEndian.AppendUint32(out, k)
	}
	return out
}

func decodeFig7Document(b []byte) (d fig7Document, err error) {
	if len(b) != 4+4*fig7Kinds {
		return d, fmt.Errorf("a document has %d bytes", len(b))
	}
	d.number = binary.BigEndian.Uint32(b)
	for i := range d.keys {
		d.keys[i] = binary.BigEndian.Uint32(b[4+4*i:])
	}
	return d, nil
}

// A cluster is named by its canonical document, in indexes and in documents.
func encodeFig7Cluster(number uint32) []byte { return binary.BigEndian.AppendUint32(nil, number) }

func decodeFig7Cluster(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, fmt.Errorf("the name of a cluster has %d bytes", len(b))
	}
	return binary.BigEndian.Uint32(b), nil
}

// fig7Arrivals are documents that arrive, with the moments at which they do. The first of them is
// only there to find everything awake.
type fig7Arrivals struct {
	first    int // document
	due      []time.Duration
	duration time.Duration
}

// arrivals are the documents from first on, as many as the rate says, at least one, each at a
// random moment: a Poisson process of which the number is known.
func (c fig7Crawl) arrivals(first int, rate float64, d time.Duration) fig7Arrivals {
	n := max(1, int(math.Round(rate*d.Seconds())))
	a := fig7Arrivals{first: first + 1, due: make([]time.Duration, n), duration: d}
	random := rand.New(rand.NewPCG(c.seed, 1<<63+uint64(first)))
	for i := range a.due {
		a.due[i] = time.Duration(random.Int64N(int64(d)))
	}
	slices.Sort(a.due)
	return a
}

// number is the document that arrives as the i-th.
func (a fig7Arrivals) number(i int) int { return a.first + i }

// end is the first document after all of them.
func (a fig7Arrivals) end() int { return a.number(len(a.due)) }

// awake is the document that arrives before all of them.
func (a fig7Arrivals) awake() int { return a.first - 1 }

// fig7Clusters is the clustering in memory, one document after the other: what the stores are
// compared with.
//
// Documents are grouped by their keys of the first kind; the first of each group stands for it in
// the grouping by keys of the second kind, and the first of those in that by keys of the third.
// That is what three MapReduces do in a row, and what a lookup "in up to three index tables" does
// for one document (section 3.1 of the paper): it belongs to the cluster that it finds first. With
// keys as in the paper it gives clusters of 3.3 documents and leaves 7 % of all alone, which are
// the figures given there. (Clusters by whatever keys two documents have in common, at any remove,
// would run together to one.)
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

// add puts the document into its cluster, and tells in how many indexes it is entered: those before
// the one that knew a key of it.
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

// fig7Rounds is the clustering of a whole repository at once: three groupings, one after the other,
// as MapReduces do it. Documents come in the order of their numbers; the result is the canonical
// document of each.
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
