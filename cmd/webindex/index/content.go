package index

import (
	"cmp"
	"slices"

	"github.com/gopercolator/percolator/cmd/webindex/page"
)

// MaxExcerpt is how much of a document's text is kept for search results, in characters.
const MaxExcerpt = 4000

// MaxAnchors is how many different anchor texts are kept for a URL: those of the most links.
const MaxAnchors = 1000

// Content is what a search result shows of a document.
type Content struct {
	Title   string `json:"title"`
	Excerpt string `json:"excerpt"` // the start of the text; a snippet is cut out of it
}

// NewContent takes from a parsed page what a search result shows.
func NewContent(p *page.Page) Content {
	return Content{Title: p.Title, Excerpt: page.Snippet(p.Text, "", MaxExcerpt)}
}

// Anchor is a text that others use for a page.
type Anchor struct {
	Text  string `json:"text"`
	Links int    `json:"links"` // how many links carry it
}

// rankAnchors is the list form of anchor counts: most links first, then by text, at most
// MaxAnchors.
func rankAnchors(counts map[string]int) []Anchor {
	list := make([]Anchor, 0, len(counts))
	for text, n := range counts {
		list = append(list, Anchor{Text: text, Links: n})
	}
	slices.SortFunc(list, func(a, b Anchor) int {
		return cmp.Or(cmp.Compare(b.Links, a.Links), cmp.Compare(a.Text, b.Text))
	})
	return list[:min(len(list), MaxAnchors)]
}
