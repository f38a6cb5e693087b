package percolator

import "slices"

// Buffered returns what the transaction itself would write to c: the value of its last Set or Insert, nil if it deletes the
// cell. written is false if it does neither. Nothing is read, so a blind transaction may ask, too. Only ErrTxnDone is possible.
// The slice is the caller's.
func (tx *Txn) Buffered(c Cell) (value []byte, written bool, err error) {
	w, ok, err := tx.own(c)
	if err != nil || !ok || w.kind != kindPut {
		return nil, ok, err
	}
	return nonNil(slices.Clone(w.value)), true, nil
}

// IsBlind tells whether the transaction was begun with Blind: it may not read, and its start timestamp may move forward in
// Commit.
func (tx *Txn) IsBlind() bool { return tx.opts.blind }
