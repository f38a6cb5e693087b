package commit

import "github.com/gopercolator/percolator/percolator/model"

const MaxWeak = maxWeak

// LeaveRoom pretends that all but left bytes of what the transaction may buffer are used.
func (tx *Txn) LeaveRoom(left int) { tx.bytes = model.MaxTxnBytes - left }

// LeaveIndexRoom pretends the same of the entries that scans of indexes keep of own writes.
func (tx *Txn) LeaveIndexRoom(left int) {
	for _, of := range tx.indexes {
		for _, own := range of {
			own.bytes = model.MaxTxnBytes - left
		}
	}
}

// Room is how many cells are buffered and how many bytes are left. cells is -1 if the order of
// writes and their names disagree.
func (tx *Txn) Room() (cells, left int) {
	if cells = len(tx.order); len(tx.writes) != cells {
		cells = -1
	}
	return cells, model.MaxTxnBytes - tx.bytes
}
