package verify

import (
	"cmp"
	"slices"
	"strings"
)

// web is everything that has to be known of all pages at once. URLs and anchor texts are numbered,
// because they occur again and again.
type web struct {
	urls  numbering
	texts numbering

	documents map[int32]*document // by URL
	links     []link
	redirects map[int32][]int32 // target → the URLs that redirect to it
	leadsTo   map[int32]int32   // the same, the other way round
	received  map[int32]int64   // what is stored for each URL, a document or not
	clusters  map[[32]byte][]int32
	inbound   map[int32][]int // target → indexes into links
}

// document is what is kept of a page after it has been read.
type document struct {
	hash     [32]byte
	content  [32]byte  // digest of title and text
	postings digestSum // of its terms
	anchors  []anchor
	canon    bool // it is the canonical URL of its cluster

	targets []int32 // where its links lead, by number
	rank    float64 // PageRank

	storedRank    int64
	storedTargets []int32
	storedAnchors string
}

type link struct {
	target, source int32
	texts          []int32 // in order of appearance
}

func newWeb() *web {
	return &web{
		documents: map[int32]*document{}, redirects: map[int32][]int32{}, leadsTo: map[int32]int32{}, received: map[int32]int64{},
		clusters: map[[32]byte][]int32{}, inbound: map[int32][]int{},
	}
}

// numbering gives strings numbers from 0.
type numbering struct {
	ids  map[string]int32
	list []string
}

func (n *numbering) id(s string) int32 {
	id, ok := n.ids[s]
	if !ok {
		if n.ids == nil {
			n.ids = map[string]int32{}
		}
		s = strings.Clone(s) // s may be part of a whole page
		id = int32(len(n.list))
		n.ids[s] = id
		n.list = append(n.list, s)
	}
	return id
}

// document returns the document at a URL, nil if there is none.
func (w *web) document(url string) *document {
	id, ok := w.urls.ids[url]
	if !ok {
		return nil
	}
	return w.documents[id]
}

// byURL sorts numbers of URLs by the URLs.
func (w *web) byURL(ids []int32) {
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Compare(w.urls.list[a], w.urls.list[b]) })
}

// complete derives from the links what is said about whom, and the ranks. It is called when all
// pages are known. Who is canonical depends on the ranks that are stored: these are right within a
// tolerance only, and are checked by themselves.
func (w *web) complete() {
	slices.SortFunc(w.links, func(a, b link) int {
		return cmp.Or(
			cmp.Compare(w.urls.list[a.target], w.urls.list[b.target]),
			cmp.Compare(w.urls.list[a.source], w.urls.list[b.source]),
		)
	})
	for i, l := range w.links {
		w.inbound[l.target] = append(w.inbound[l.target], i)
	}
	for id, d := range w.documents {
		d.anchors = w.citations(id)
		w.clusters[d.hash] = append(w.clusters[d.hash], id)
	}
	for _, members := range w.clusters {
		w.byURL(members)
		w.documents[w.canonical(members)].canon = true
	}
	w.rank()
}

// canonical is the member with the highest stored rank, the first of them in the order of URLs.
func (w *web) canonical(members []int32) int32 {
	return slices.MaxFunc(members, func(a, b int32) int { return cmp.Compare(w.documents[a].storedRank, w.documents[b].storedRank) })
}

// aliases is target and every URL that leads to it by redirects.
func (w *web) aliases(target int32) []int32 {
	list, seen := []int32{target}, map[int32]bool{target: true}
	for i := 0; i < len(list); i++ {
		for _, from := range w.redirects[list[i]] {
			if !seen[from] {
				seen[from] = true
				list = append(list, from)
			}
		}
	}
	return list
}

// citations lists the texts of the links from other pages to target or to one of its aliases, with
// the number of pages that use each.
func (w *web) citations(target int32) []anchor {
	said := map[[2]int32]bool{} // source and text
	counts := map[int32]int{}
	for _, alias := range w.aliases(target) {
		for _, i := range w.inbound[alias] {
			l := w.links[i]
			if l.source == target {
				continue
			}
			for _, text := range l.texts {
				if k := [2]int32{l.source, text}; !said[k] {
					said[k] = true
					counts[text]++
				}
			}
		}
	}
	return w.sortAnchors(counts)
}
