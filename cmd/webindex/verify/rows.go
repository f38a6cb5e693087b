package verify

import (
	"iter"

	"github.com/gopercolator/percolator/percolator"
)

// row is what a scan found in one row: values by column.
type row struct {
	key   string
	cells map[string][]byte
}

// rows groups the entries of a scan by row. A row is only valid until the next one.
func rows(entries iter.Seq2[percolator.Entry, error]) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		r := row{cells: map[string][]byte{}}
		for e, err := range entries {
			if err != nil {
				yield(row{}, err)
				return
			}
			if e.Cell.Row != r.key {
				if len(r.cells) > 0 && !yield(r, nil) {
					return
				}
				clear(r.cells)
				r.key = e.Cell.Row
			}
			r.cells[e.Cell.Column] = e.Value
		}
		if len(r.cells) > 0 {
			yield(r, nil)
		}
	}
}

// column decodes one cell of a row. A cell that is absent is the zero value. What cannot be decoded
// is a difference.
func column[T any](c *check, r row, col percolator.Column[T]) (v T) {
	cell := col.Cell(r.key)
	raw, ok := r.cells[cell.Column]
	if !ok {
		return v
	}
	v, err := col.Decode(r.key, raw)
	if err != nil {
		c.compare(cell.Column, r.key, "a readable value", "one that cannot be decoded")
	}
	return v
}
