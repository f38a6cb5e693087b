package commit

import (
	"iter"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// LockReads turns every read into a buffered lock: a write of kind lock, which changes nothing and
// conflicts like a write. The transaction buffers the lock before it hands out the answer, so a
// caller never acts on an unprotected cell. Prewrite decides whether the cell really stayed as it
// was (I2), as for GetForUpdate.

// lockRead buffers a lock for each of the cells, under LockReads: all or none, so a call that would
// exceed MaxTxnBytes leaves no lock behind. Cells that the transaction writes conflict already. No
// transaction can write weak columns, so they need no lock.
func (tx *Txn) lockRead(cells ...model.Cell) error {
	if !tx.opts.LockReads {
		return nil
	}
	lockable := make([]model.Cell, 0, len(cells))
	for _, c := range cells {
		info, err := tx.check(c)
		if err != nil {
			return err
		}
		if !info.IsWeak[c.Column] {
			lockable = append(lockable, c)
		}
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return errTxnDone()
	}
	size, before := 0, len(tx.order)
	for _, c := range lockable {
		if tx.writes[c] == nil {
			w := &Write{Cell: c, Kind: layout.KindLock}
			tx.writes[c] = w // at once: a call may name a cell twice
			tx.order = append(tx.order, w)
			size += w.size()
		}
	}
	if tx.bytes+size > model.MaxTxnBytes {
		for _, w := range tx.order[before:] {
			delete(tx.writes, w.Cell)
		}
		tx.order = tx.order[:before]
		return catalog.CellError(model.ErrTooLarge, lockable[0], "the transaction would buffer more than %d bytes with locks on the %d cells that it reads", model.MaxTxnBytes, len(lockable))
	}
	tx.bytes += size
	return nil
}

// locking locks each entry of a scan before it hands it out, under LockReads.
func (tx *Txn) locking(stream iter.Seq2[model.Entry, error]) iter.Seq2[model.Entry, error] {
	if !tx.opts.LockReads {
		return stream
	}
	return func(yield func(model.Entry, error) bool) {
		for e, err := range stream {
			if err == nil {
				err = tx.lockRead(e.Cell)
			}
			if err != nil {
				yield(model.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
