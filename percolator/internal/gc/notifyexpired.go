package gc

import (
	"context"
	"errors"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// No transaction commits when a value expires, so none notifies. Where the schema asks for it
// (NotifyExpired), the collector does not erase the record of such a value but deletes the value,
// in a transaction like any other: it conflicts with writers, has an entry, and notifies. Snapshots
// see no difference. The record goes when the deletion is above it, and the deletion as all of them
// do.
//
//	crash before the commit   what has led here stays, and leads the next collector here
//	crash after it            the deletion's own entry leads here
//	a lock above the value    the row is left to a cycle that resolves the lock (J12)
//
// Rejected: a notification without a deletion. Observers run for the newest change of a cell (I12),
// and have run for the put.

// expiredAtOnce is how many cells one transaction deletes.
const expiredAtOnce = 256

// deleteExpired deletes values that had expired when they were read. What cannot be deleted now is
// left to the next cycle.
func (x *eraser) deleteExpired(ctx context.Context, cells []model.Cell, did *erased) error {
	for len(cells) > 0 {
		n := min(len(cells), expiredAtOnce)
		if err := x.deleteTogether(ctx, cells[:n], did); err != nil {
			return err
		}
		cells = cells[n:]
	}
	return nil
}

// deleteTogether deletes them in one transaction, or, as one of them conflicts, in smaller ones.
func (x *eraser) deleteTogether(ctx context.Context, cells []model.Cell, did *erased) error {
	deleted, err := x.commitDeletion(ctx, cells, did)
	switch half := len(cells) / 2; {
	case errors.Is(err, model.ErrConflict) && half > 0:
		if err := x.deleteTogether(ctx, cells[:half], did); err != nil {
			return err
		}
		return x.deleteTogether(ctx, cells[half:], did)
	case errors.Is(err, model.ErrConflict), // a transaction has written there
		errors.Is(err, model.ErrImporting), errors.Is(err, model.ErrSnapshotTooOld), // or an import
		errors.Is(err, model.ErrSchemaMismatch): // the table is being dropped
		for _, c := range cells {
			did.leave(c.Row, 1)
		}
		return nil
	}
	did.expired.Add(int64(deleted))
	return err
}

// commitDeletion deletes those of the cells whose newest change is a value that has expired.
func (x *eraser) commitDeletion(ctx context.Context, cells []model.Cell, did *erased) (deleted int, err error) {
	tx, err := x.e.Commits.Begin(ctx, commit.TxnOptions{})
	if err != nil {
		return 0, err
	}
	found, err := x.e.Reads.ReadCells(ctx, tx.StartTimestamp(), cells, 0)
	if err != nil {
		return 0, err
	}
	for _, r := range found {
		if r.Skipped { // a transaction is in flight there
			did.leave(r.Cell.Row, 1)
			continue
		}
		if r.Record.Kind != layout.KindPut || !r.Record.Expired(tx.StartTimestamp()) {
			continue
		}
		if err := tx.Put(&commit.Write{Cell: r.Cell, Kind: layout.KindDelete}); err != nil {
			return 0, err
		}
		deleted++
	}
	if deleted == 0 {
		return 0, nil
	}
	_, err = tx.Commit(ctx)
	return deleted, err
}
