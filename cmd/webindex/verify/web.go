package verify

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/cmd/webindex/index"
)

// web is everything that has to be known of all pages at once. URLs and anchor texts occur again
// and again, and are kept once.
type web struct {
	strings map[string]string

	documents map[string]*document // by URL
	urls      []string             // of the documents, in order
	links     map[string][]link    // by target
	redirects map[string][]string  // target → the URLs that redirect to it
	leadsTo   map[string]string    // the same, the other way round
	received  map[string]int64     // what is stored for each URL, a document or not
	clusters  map[string][]string  // the URLs of each hash, in order
}

// document is what is kept of a page after it has been read.
type document struct {
	hash     string
	content  [32]byte  // digest of title and text
	postings digestSum // of its terms
	anchors  []index.Anchor
	canon    bool // it is the canonical URL of its cluster

	targets    []string    // where its links lead, in order
	to         []*document // those of them that are documents
	rank, next float64     // PageRank, and what it is after a step of the computation

	storedRank    int64
	storedShared  bool
	storedTargets []string
}

type link struct {
	source string
	texts  []string // in order of appearance
}

func newWeb() *web {
	return &web{
		strings: map[string]string{}, documents: map[string]*document{}, links: map[string][]link{},
		redirects: map[string][]string{}, leadsTo: map[string]string{}, received: map[string]int64{}, clusters: map[string][]string{},
	}
}

// intern returns the copy of s that is kept; s may be part of a whole page.
func (w *web) intern(s string) string {
	kept, ok := w.strings[s]
	if !ok {
		kept = strings.Clone(s)
		w.strings[kept] = kept
	}
	return kept
}

// internAll is intern for each of a list.
func (w *web) internAll(list []string) []string {
	var kept []string
	for _, s := range list {
		kept = append(kept, w.intern(s))
	}
	return kept
}

// complete derives from the links what pages say about others, and the ranks. It is called when all
// pages are known. Who is canonical depends on the ranks that are stored: these are right within a
// tolerance only, and are checked by themselves.
func (w *web) complete() {
	w.urls = slices.Sorted(maps.Keys(w.documents))
	for _, url := range w.urls {
		d := w.documents[url]
		d.anchors = w.citations(url)
		w.clusters[d.hash] = append(w.clusters[d.hash], url)
	}
	for _, members := range w.clusters {
		w.documents[w.canonical(members)].canon = true
	}
	w.rank()
}

// canonical is the member with the highest stored rank, the first of them in the order of URLs.
func (w *web) canonical(members []string) string {
	return slices.MaxFunc(members, func(a, b string) int { return cmp.Compare(w.documents[a].storedRank, w.documents[b].storedRank) })
}

// aliases is target and every URL that leads to it by redirects.
func (w *web) aliases(target string) []string {
	list, seen := []string{target}, map[string]bool{target: true}
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
func (w *web) citations(target string) []index.Anchor {
	said := map[[2]string]bool{} // source and text
	counts := map[string]int{}
	for _, alias := range w.aliases(target) {
		for _, l := range w.links[alias] {
			if l.source == target {
				continue
			}
			for _, text := range l.texts {
				if k := [2]string{l.source, text}; !said[k] {
					said[k] = true
					counts[text]++
				}
			}
		}
	}
	return sortAnchors(counts)
}

// clusterAnchors adds up what is said about all members.
func (w *web) clusterAnchors(members []string) []index.Anchor {
	counts := map[string]int{}
	for _, m := range members {
		for _, a := range w.documents[m].anchors {
			counts[a.Text] += a.Links
		}
	}
	return sortAnchors(counts)
}

// sortAnchors lists the texts of the most links first, those of equally many by text, up to the
// index's limit.
func sortAnchors(counts map[string]int) []index.Anchor {
	var list []index.Anchor
	for text, n := range counts {
		list = append(list, index.Anchor{Text: text, Links: n})
	}
	slices.SortFunc(list, func(a, b index.Anchor) int {
		return cmp.Or(b.Links-a.Links, strings.Compare(a.Text, b.Text))
	})
	return list[:min(len(list), index.MaxAnchors)]
}
