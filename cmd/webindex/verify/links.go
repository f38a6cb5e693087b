package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/percolator"
)

// links compares the inverted links and redirects. What is expected is brought into the order of
// the table, and the two are merged.
func (c *check) links(ctx context.Context) error {
	expected := c.web.sortedEdges()
	missing := func(e edge) { c.compare(e.what(), e.place(), e.print(), "") }
	for got, err := range c.reader.Scan(ctx, index.Links, percolator.All()) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", index.Links, err)
		}
		for len(expected) > 0 && expected[0].compare(got.Cell) < 0 {
			missing(expected[0])
			expected = expected[1:]
		}
		source, redirect := index.LinkSource(got.Cell.Column)
		have := edge{row: got.Cell.Row, column: got.Cell.Column, redirect: redirect}
		want := ""
		if len(expected) > 0 && expected[0].compare(got.Cell) == 0 {
			want = expected[0].print()
			expected = expected[1:]
		}
		if !redirect {
			if have.texts, err = index.LinkAnchors(source).Decode(got.Cell.Row, got.Value); err != nil {
				have.texts = []string{"(not readable)"}
			}
		}
		c.compare(have.what(), have.place(), want, have.print())
	}
	for _, e := range expected {
		missing(e)
	}
	return nil
}

// edge is a link or a redirect, with the cell in which it is stored.
type edge struct {
	row, column string
	redirect    bool
	texts       []string
}

func (e edge) compare(c percolator.Cell) int {
	return cmp.Or(cmp.Compare(e.row, c.Row), cmp.Compare(e.column, c.Column))
}

func (e edge) what() string {
	if e.redirect {
		return "redirect"
	}
	return "link"
}

// place names both ends.
func (e edge) place() string {
	source, _ := index.LinkSource(e.column)
	return source + " → " + e.row
}

func (e edge) print() string {
	if e.redirect {
		return "a redirect"
	}
	return fmt.Sprintf("a link with %q", e.texts) // a link without a text is a link, too
}

// sortedEdges lists everything that the table of links should hold.
func (w *web) sortedEdges() []edge {
	var edges []edge
	for target, links := range w.links {
		for _, l := range links {
			edges = append(edges, edge{target, index.LinkAnchors(l.source).Name, false, l.texts})
		}
	}
	for target, sources := range w.redirects {
		for _, source := range sources {
			edges = append(edges, edge{target, index.LinkRedirect(source).Name, true, nil})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return a.compare(percolator.Cell{Row: b.row, Column: b.column}) })
	return edges
}
