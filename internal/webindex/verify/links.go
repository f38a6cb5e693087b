package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/index"
)

// links compares the inverted links and redirects. What is expected is brought into the order of
// the table, and the two are merged.
func (c *check) links(ctx context.Context) error {
	expected := c.web.sortedEdges()
	missing := func(e edge) { c.compare(e.what(), e.place(), e.print(c.web), "") }
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
			want = expected[0].print(c.web)
			expected = expected[1:]
		}
		if !redirect {
			texts, err := index.LinkAnchors(source).Decode(got.Cell.Row, got.Value)
			if err != nil {
				texts = []string{"(not readable)"}
			}
			c.compare(have.what(), have.place(), want, printTexts(texts))
			continue
		}
		c.compare(have.what(), have.place(), want, have.print(c.web))
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
	link        int // index in web.links
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

// slot names both ends.
func (e edge) place() string {
	source, _ := index.LinkSource(e.column)
	return source + " → " + index.First(e.row)
}

func (e edge) print(w *web) string {
	if e.redirect {
		return "a redirect"
	}
	return w.printTexts(w.links[e.link])
}

// sortedEdges lists everything that the table of links should hold.
func (w *web) sortedEdges() []edge {
	edges := make([]edge, 0, len(w.links)+len(w.redirects))
	for i, l := range w.links {
		target, source := w.urls.list[l.target], w.urls.list[l.source]
		edges = append(edges, edge{index.LinkRow(target, source), index.LinkAnchors(source).Name, false, i})
	}
	for to, sources := range w.redirects {
		for _, from := range sources {
			target, source := w.urls.list[to], w.urls.list[from]
			edges = append(edges, edge{index.LinkRow(target, source), index.LinkRedirect(source).Name, true, 0})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return a.compare(percolator.Cell{Row: b.row, Column: b.column}) })
	return edges
}

// printTexts prints the anchor texts of one link. A link without a text is a link too.
func (w *web) printTexts(l link) string {
	texts := make([]string, len(l.texts))
	for i, id := range l.texts {
		texts[i] = w.texts.list[id]
	}
	return printTexts(texts)
}

func printTexts(texts []string) string { return fmt.Sprintf("a link with %q", texts) }
