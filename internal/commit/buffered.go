package commit

import (
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/reads"
	"slices"
)

// Buffered returns the own write of c, if any.
func (tx *Txn) Buffered(c model.Cell) (value []byte, written bool, err error) {
	w, ok, err := tx.own(c)
	if err != nil || !ok || w.Kind != layout.KindPut {
		return nil, ok, err
	}
	return reads.NonNil(slices.Clone(w.Value)), true, nil
}

// IsBlind reports whether the transaction was begun with Blind.
func (tx *Txn) IsBlind() bool { return tx.opts.Blind }
