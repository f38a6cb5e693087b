package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Grid is a table in whose cells there may be several lines, and between whose rows there may be
// text over its whole width.
type Grid struct {
	Head   []string
	rows   []gridRow
	Indent string
	Least  map[string]int // widths of columns that stay so wide whatever is in them, by their heads
}

// Line is a line of a cell.
type Line struct {
	text  string
	style Style
}

// Lines are lines without a style.
func Lines(texts ...string) []Line {
	return Array(texts, func(text string) Line { return Styled(text, Plain) })
}

// Styled is a line with a style.
func Styled(text string, s Style) Line { return Line{text, s} }

// gridRow has a cell for each column of the head, and below them a note, which begins under the
// third column.
type gridRow struct {
	cells [][]Line
	note  Line
}

const gridGap = "  "

// Add adds a row.
func (g *Grid) Add(note Line, cells ...[]Line) { g.rows = append(g.rows, gridRow{cells, note}) }

// Write draws the grid; a column that is empty in all rows is left out if it is among those that
// may be.
func (g *Grid) Write(w io.Writer, p Painter, optional ...string) {
	widths := make([]int, len(g.Head))
	for i, title := range g.Head {
		for _, row := range g.rows {
			for _, l := range row.cells[i] {
				widths[i] = max(widths[i], utf8.RuneCountInString(l.text))
			}
		}
		if widths[i] > 0 || !slices.Contains(optional, title) {
			widths[i] = max(widths[i], utf8.RuneCountInString(title), g.Least[title])
		}
	}
	var b strings.Builder
	g.writeLine(&b, p, widths, Array(g.Head, func(title string) Line { return Styled(title, Dim) }))
	for _, row := range g.rows {
		for at := 0; at < row.height(); at++ {
			across := make([]Line, len(row.cells))
			for i, cell := range row.cells {
				if at < len(cell) {
					across[i] = cell[at]
				}
			}
			g.writeLine(&b, p, widths, across)
		}
		if row.note.text != "" {
			fmt.Fprintf(&b, "%s%s%s\n", g.Indent, strings.Repeat(" ", widths[0]+widths[1]+2*len(gridGap)), p.Paint(row.note.style, row.note.text))
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

func (g *Grid) writeLine(b *strings.Builder, p Painter, widths []int, across []Line) {
	last := len(across) - 1
	for last >= 0 && (across[last].text == "" || widths[last] == 0) {
		last--
	}
	b.WriteString(g.Indent)
	for i, l := range across[:last+1] {
		if widths[i] == 0 {
			continue
		}
		b.WriteString(p.Paint(l.style, l.text))
		if i < last {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(l.text)) + gridGap)
		}
	}
	b.WriteByte('\n')
}
