package reads

import (
	"bytes"
	"crypto/sha256"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// Remembered is what is known of a cell without asking the store. The zero value is nothing.
type Remembered struct {
	known bool
	value []byte // nil: there is none, or only its digest is kept
	sum   digest
}

// digest stands for a value; the zero digest for absence.
type digest [sha256.Size]byte

// Remember is what a value says, nil for absence.
func Remember(value []byte) Remembered { return Remembered{known: true, value: value} }

// Exists reports whether the cell is known to have a value.
func (r Remembered) Exists() bool { return r.value != nil || r.sum != digest{} }

// IsAbsent reports whether the cell is known to have no value.
func (r Remembered) IsAbsent() bool { return r.known && !r.Exists() }

// Is reports whether the cell is known to have this value, nil for absence.
func (r Remembered) Is(value []byte) bool {
	switch {
	case value == nil:
		return r.IsAbsent()
	case r.value != nil:
		return bytes.Equal(r.value, value)
	}
	return r.sum == sha256.Sum256(value)
}

// digestBytes bounds what one snapshot spends on digests: those of some 200,000 cells.
const digestBytes = 32 << 20

// digests remember values that are too many to keep.
type digests struct {
	cells  map[model.Cell]digest
	bytes  int
	forgot bool // some that had no room
}

func (d *digests) put(c model.Cell, value []byte) {
	if d == nil {
		return
	}
	if _, ok := d.cells[c]; ok {
		return // a snapshot cannot change
	}
	size := len(c.Row) + len(c.Column) + 64 + sha256.Size
	if d.bytes+size > digestBytes {
		d.forgot = true
		return
	}
	if d.cells == nil {
		d.cells = map[model.Cell]digest{}
	}
	d.bytes += size
	if d.cells[c] = (digest{}); value != nil {
		d.cells[c] = sha256.Sum256(value)
	}
}

// of returns what is remembered of a cell, or ErrTooLarge where that may have had no room.
func (d *digests) of(c model.Cell) (Remembered, error) {
	if d == nil {
		return Remembered{}, nil
	}
	sum, ok := d.cells[c]
	if !ok && d.forgot {
		return Remembered{}, catalog.CellError(model.ErrTooLarge, c, "the transaction has read more cells than it remembers, this one perhaps among them; make it several transactions")
	}
	return Remembered{known: ok, sum: sum}, nil
}
