package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// BackfillObserver notifies every cell of an observed column with a value for which observer has
// not run, such as those that are older than the observer. Workers then run it; observers that have
// run for the cell already find nothing to do. Deleted cells are not notified.
//
// Call it once every worker that takes the column has the observer: a worker without it would clear
// the notifications. It returns when all notifications are written; Worker.WaitIdle waits until
// they are done.
//
// It makes a few requests for RowsPerPage rows. It keeps its position in percolator_meta: after a
// crash, or when ctx has ended, the next call continues from there, in this or another process.
// Concurrent calls do no harm. Memory: one page of row keys and records.
//
// Errors: ErrSchemaMismatch when the column is not observed, or was dropped as such meanwhile;
// ErrConflict if rows were imported meanwhile; ErrInvalidArgument for the options or the name;
// ErrCorrupt for a stored position that cannot be read. Cells that cannot be decoded are notified:
// their readers report them.
func (a *Admin) BackfillObserver(ctx context.Context, table, column, observer string, opts ObserverOptions) (ObserverProgress, error) {
	ctx = store.InBackground(ctx)
	w, err := a.newObserverWalk(ctx, backfillObserverRow, forgetObserverRow, table, column, observer, opts)
	if err != nil {
		return ObserverProgress{}, err
	}
	w.columns, w.page = []string{column, layout.AckColumn(column, observer)}, w.notify
	return w.run(ctx)
}

// notify writes the notify cells of what the observer has not seen, at a new timestamp: later than
// every run that workers remember.
func (w *observerWalk) notify(ctx context.Context, rows []walkedRow) (int64, error) {
	var cells []model.Cell
	for _, row := range rows {
		changed := lastChange(row.seen[w.column])
		run := lastRunCommitted(row.seen[layout.AckColumn(w.column, w.observer)])
		if changed == 0 || changed <= run {
			continue
		}
		cells = append(cells, model.Cell{Table: w.table, Row: row.key, Column: w.column})
	}
	if len(cells) == 0 || w.opts.DryRun {
		return int64(len(cells)), nil
	}
	a, err := w.e.Commits.Announce(ctx, commit.WeakRows(cells))
	if err != nil {
		return 0, err
	}
	if err := w.e.Meta.CheckCommit(ctx, a.TS, slices.Values([]string{w.table})); err != nil {
		return 0, err
	}
	muts := make([]store.RowMutation, len(cells))
	for i, c := range cells {
		mut := store.NewMutation(2)
		mut.Put(layout.NotifyFamily, w.column, a.TS, nil)
		muts[i] = store.RowMutation{Table: w.table, Row: c.Row, Mut: mut, Deadline: a.Deadline}
	}
	if err := w.e.Sweeping.Do(ctx, muts); err != nil {
		return 0, err
	}
	w.e.Commits.Done(a, cells...)
	for _, c := range cells {
		w.e.Dispatch.Notified(model.Notification{Cell: c, Timestamp: a.TS})
	}
	return int64(len(cells)), nil
}

// lastRunCommitted is LastRun by what has been committed; 0 in doubt. Under a lock there may be the
// deletion by a ForgetObserver that has committed, and whose phase two is in flight.
func lastRunCommitted(v *layout.Versions) tso.Timestamp {
	if v == nil || v.Corrupt != nil || len(v.Locks) > 0 {
		return 0
	}
	run, _, _ := v.LastRun(tso.MaxTimestamp, recordsSeen)
	return run
}

// checkObserver checks an observer's name.
func checkObserver(at model.Cell, observer string) error {
	if observer == "" || strings.Contains(observer, "\x00") {
		return catalog.CellError(model.ErrInvalidArgument, at, "an observer's name is empty or contains the byte 0x00")
	}
	return nil
}

// ForgetObserver deletes the acknowledgments of an observer that no worker has any more, and what
// is parked for it. An observer that a worker registers under the same name later starts from
// nothing: workers run it for everything that is notified or backfilled. Call it when no worker has
// the observer; a run that commits meanwhile leaves its acknowledgment, or conflicts.
//
// Transactions of at most 128 rows each delete the acknowledgments; the collector removes what is
// left of them. Position, memory and errors are those of BackfillObserver.
func (a *Admin) ForgetObserver(ctx context.Context, table, column, observer string, opts ObserverOptions) (ObserverProgress, error) {
	ctx = store.InBackground(ctx)
	w, err := a.newObserverWalk(ctx, forgetObserverRow, backfillObserverRow, table, column, observer, opts)
	if err != nil {
		return ObserverProgress{}, err
	}
	w.columns, w.page = []string{layout.AckColumn(column, observer)}, w.forgetAcks
	p, err := w.run(ctx)
	if err == nil && !opts.DryRun {
		err = a.forgetStatesOf(ctx, table, column, observer)
	}
	return p, err
}

const forgottenAtOnce = 128 // rows of a transaction

// forgetAcks deletes the acknowledgments in rows.
func (w *observerWalk) forgetAcks(ctx context.Context, rows []walkedRow) (changed int64, err error) {
	column := layout.AckColumn(w.column, w.observer)
	rows = slices.DeleteFunc(slices.Clone(rows), func(row walkedRow) bool {
		v := row.seen[column]
		return v == nil || v.Corrupt != nil || nothingToForget(v)
	})
	if w.opts.DryRun {
		return int64(len(rows)), nil
	}
	for chunk := range slices.Chunk(rows, forgottenAtOnce) {
		_, err := w.e.Commits.Update(ctx, func(ctx context.Context, tx *commit.Txn) error {
			for _, row := range chunk {
				if err := tx.Put(&commit.Write{Cell: model.Cell{Table: w.table, Row: row.key, Column: column}, Kind: layout.KindDelete}); err != nil {
					return err
				}
			}
			return nil
		}, commit.TxnOptions{})
		if err != nil {
			return changed, err
		}
		changed += int64(len(chunk))
	}
	return changed, nil
}

// nothingToForget reports whether an observer has no acknowledgment in a cell. Under a lock there
// may be one that has committed.
func nothingToForget(v *layout.Versions) bool {
	return len(v.Locks) == 0 && (len(v.Writes) == 0 || v.Writes[0].Kind == layout.KindDelete)
}

// forgetStatesOf erases the states of an observer. Its notifications remain for the column's other
// observers.
func (a *Admin) forgetStatesOf(ctx context.Context, table, column, observer string) error {
	for row, err := range a.e.Reads.ScanPending(ctx, table, model.All()) {
		if err != nil {
			return err
		}
		for _, s := range row.States {
			if s.Cell.Column != column || s.Observer != observer {
				continue
			}
			if err := a.e.Commits.ClearObserverState(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}
