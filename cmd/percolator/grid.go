package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// grid is a table in whose cells there may be several lines, and between whose rows there may be
// text over its whole width.
type grid struct {
	head   []string
	rows   []gridRow
	indent string
	least  map[string]int // widths of columns that stay so wide whatever is in them, by their heads
}

// line is a line of a cell.
type line struct {
	text  string
	style style
}

// gridRow has a cell for each column of the head, and below them a note, which begins under the
// third column.
type gridRow struct {
	cells [][]line
	note  line
}

const gridGap = "  "

func (g *grid) add(note line, cells ...[]line) { g.rows = append(g.rows, gridRow{cells, note}) }

// write draws the grid; a column that is empty in all rows is left out if it is among those that
// may be.
func (g *grid) write(w io.Writer, p painter, optional ...string) {
	widths := make([]int, len(g.head))
	for i, title := range g.head {
		for _, row := range g.rows {
			for _, l := range row.cells[i] {
				widths[i] = max(widths[i], utf8.RuneCountInString(l.text))
			}
		}
		if widths[i] > 0 || !slices.Contains(optional, title) {
			widths[i] = max(widths[i], utf8.RuneCountInString(title), g.least[title])
		}
	}
	var b strings.Builder
	head := make([]line, len(g.head))
	for i, title := range g.head {
		head[i] = line{title, dim}
	}
	g.writeLine(&b, p, widths, head)
	for _, row := range g.rows {
		for at := 0; at < row.height(); at++ {
			across := make([]line, len(row.cells))
			for i, cell := range row.cells {
				if at < len(cell) {
					across[i] = cell[at]
				}
			}
			g.writeLine(&b, p, widths, across)
		}
		if row.note.text != "" {
			fmt.Fprintf(&b, "%s%s%s\n", g.indent, strings.Repeat(" ", widths[0]+widths[1]+2*len(gridGap)), p.paint(row.note.style, row.note.text))
		}
	}
	_, _ = io.WriteString(w, b.String())
}

// height is how many lines the highest cell has.
func (r gridRow) height() (n int) {
	for _, cell := range r.cells {
		n = max(n, len(cell))
	}
	return n
}

func (g *grid) writeLine(b *strings.Builder, p painter, widths []int, across []line) {
	last := len(across) - 1
	for last >= 0 && (across[last].text == "" || widths[last] == 0) {
		last--
	}
	b.WriteString(g.indent)
	for i, l := range across[:last+1] {
		if widths[i] == 0 {
			continue
		}
		b.WriteString(p.paint(l.style, l.text))
		if i < last {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(l.text)) + gridGap)
		}
	}
	b.WriteByte('\n')
}

// shortened cuts the middle out of a text that is wider than n characters.
func shortened(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	tail := (n - 1) / 3
	return string(runes[:n-1-tail]) + "…" + string(runes[len(runes)-tail:])
}
