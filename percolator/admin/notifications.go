package admin

import (
	"context"
	"iter"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// ScanPending streams, in row order, the rows of table in r that carry notify or lock cells. It
// needs both to find all work: a crash between the commit point and a secondary leaves an observed
// cell locked and without its notify cell (section 2.4 of the paper). Bigtable passes over the
// clean rows in between, and the stream lasts until r is done or ctx ends.
func (a *Admin) ScanPending(ctx context.Context, table string, r percolator.Range) iter.Seq2[model.Pending, error] {
	return a.e.Reads.ScanPending(store.InBackground(ctx), table, r)
}

// RetryParked lets workers run a parked observer again: it erases the observer state, and the
// notification is still there. It does not affect other observers of the cell. A request of the
// worker that parked it may be late by the request lifetime (I14) and park it once more.
func (a *Admin) RetryParked(ctx context.Context, s model.ObserverState) error {
	return a.e.Commits.RetryParked(ctx, s)
}

// DropParked gives up on the change for which an observer is parked, as if the observer had run and
// written nothing. For an observed column it commits the acknowledgment first, so that an
// interrupted drop can be repeated. ErrConflict: the cell has changed since the worker parked it,
// so workers run the observer again by themselves.
func (a *Admin) DropParked(ctx context.Context, s model.ObserverState) error {
	return a.e.Commits.DropParked(ctx, s)
}

// ClearNotification erases the notify cells of cell with timestamps up to upTo, in the background.
// The caller has established that no observer of the cell has work left up to then (I13); a later
// change keeps its notification. Errors: ErrConflict if a repair has ended at or after upTo, and
// ErrRepairing.
func (a *Admin) ClearNotification(ctx context.Context, cell percolator.Cell, upTo tso.Timestamp) error {
	return a.e.Commits.ClearNotification(ctx, cell, upTo)
}
