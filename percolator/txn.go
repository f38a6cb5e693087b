package percolator

import (
	"context"
	"iter"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/tso"
)

// Txn is a transaction under snapshot isolation (section 2.2 of the paper): it reads the snapshot
// at its start timestamp together with its own buffered writes, and commits all of them or none.
// Write skew is possible; GetForUpdate prevents it for a cell, the option LockReads for everything
// that the transaction reads.
//
// Methods may be called concurrently. After Commit or Rollback every method that returns an
// error returns ErrTxnDone, but for Rollback.
type Txn commit.Txn

func (tx *Txn) t() *commit.Txn { return (*commit.Txn)(tx) }

// StartTimestamp returns the timestamp of the transaction's snapshot, which also identifies the
// transaction. Commit may move it forward if the transaction is blind.
func (tx *Txn) StartTimestamp() tso.Timestamp { return tx.t().StartTimestamp() }

// Set buffers a write and copies value. A write of the bytes that are already there still conflicts
// with other writers. A nil value is stored as an empty one: reads, observers and queues return it
// as an empty slice that is not nil, because nil stands for absence there. Errors:
// ErrInvalidArgument (names, weak columns), ErrTooLarge, ErrSchemaMismatch (unknown table),
// ErrTxnDone. The transaction stays usable after all of them but ErrTxnDone.
func (tx *Txn) Set(c Cell, value []byte) error { return tx.t().Set(c, value) }

// Insert is Set for a cell that must have no value in the snapshot; otherwise Commit returns
// ErrExists.
func (tx *Txn) Insert(c Cell, value []byte) error { return tx.t().Insert(c, value) }

// Delete buffers a deletion, which is a write like any other: it conflicts, and it notifies
// observers.
func (tx *Txn) Delete(c Cell) error { return tx.t().Delete(c) }

// Notify buffers a weak notification (section 2.4 of the paper): the cell's observers will run, and
// nothing conflicts. The column must be one of the table's weak columns.
func (tx *Txn) Notify(c Cell) error { return tx.t().Notify(c) }

// Get returns the value of c: the transaction's own write, or what the snapshot has; ErrNotFound if
// there is none. It waits for a lock of a live transaction until ctx ends (ErrLocked with the
// context's error). The slice is the caller's.
func (tx *Txn) Get(ctx context.Context, c Cell) ([]byte, error) { return tx.t().Get(ctx, c) }

// GetMulti returns the values of the cells in order, nil where there is none, with as few requests
// as possible.
func (tx *Txn) GetMulti(ctx context.Context, cells ...Cell) ([][]byte, error) {
	return tx.t().GetMulti(ctx, cells...)
}

// GetForUpdate is Get, and makes the transaction conflict with every concurrent writer of c, as if
// it had written the cell without changing it. That prevents write skew on the cell. It does not
// notify observers.
func (tx *Txn) GetForUpdate(ctx context.Context, c Cell) ([]byte, error) {
	return tx.t().GetForUpdate(ctx, c)
}

// Scan streams the entries of the named columns (all if none is named) in row order, then column
// order. It merges in the transaction's own writes as they stand when Scan is called. An error ends
// the stream.
func (tx *Txn) Scan(ctx context.Context, table string, r Range, columns ...string) iter.Seq2[Entry, error] {
	return tx.t().Scan(ctx, table, r, columns...)
}

// ScanWith is Snapshot.ScanWith with the transaction's own writes merged in, as Scan does.
func (tx *Txn) ScanWith(ctx context.Context, table string, o ScanOptions) iter.Seq2[Entry, error] {
	return tx.t().ScanWith(ctx, table, o)
}

// ScanIndex is Snapshot.ScanIndex with the transaction's own writes merged in, as Scan does. It
// reads the old value of each cell that the transaction has written in the indexed column, once.
func (tx *Txn) ScanIndex(ctx context.Context, table, index string, values Range) iter.Seq2[Entry, error] {
	return tx.t().ScanIndex(ctx, table, ScanOptions{Index: index, Rows: []Range{values}})
}

// Commit makes the buffered writes visible, all or none, and returns the commit timestamp. For a
// transaction without writes it sends nothing and returns the start timestamp.
//
// Errors: ErrConflict (*ConflictError), ErrExists, ErrUnique, ErrTooLarge and ErrSnapshotTooOld
// mean that nothing was committed. ErrOutcomeUnknown means that the transaction may have committed.
// If ctx ends before Commit tries the commit point, the transaction is aborted for certain and the
// error is the context's. ErrInvalidArgument: the function of an Update, or an observer, has called
// it; nothing is sent, and the transaction stays usable. What the function returns ends it.
func (tx *Txn) Commit(ctx context.Context) (tso.Timestamp, error) {
	if err := tx.t().CheckOwned(); err != nil {
		return 0, err
	}
	return tx.t().Commit(ctx)
}

// Rollback discards the transaction. Before Commit nothing has been written, so it sends nothing;
// after Commit it does nothing. ErrInvalidArgument, as for Commit.
func (tx *Txn) Rollback(ctx context.Context) error {
	if err := tx.t().CheckOwned(); err != nil {
		return err
	}
	return tx.t().Rollback(ctx)
}

// Buffered returns what the transaction itself would write to c: the value of its last Set or
// Insert, or nil if it deletes the cell. written is false if it does neither. Buffered reads
// nothing, so a blind transaction may call it. The only error is ErrTxnDone. The slice is the
// caller's.
func (tx *Txn) Buffered(c Cell) (value []byte, written bool, err error) { return tx.t().Buffered(c) }

// IsBlind reports whether the transaction was started with Blind: it may not read, and Commit may
// move its start timestamp forward.
func (tx *Txn) IsBlind() bool { return tx.t().IsBlind() }
