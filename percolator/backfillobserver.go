package percolator

import (
	"context"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// BackfillObserver notifies every cell of an observed column that has a value for which observer has not run: of an observer that was
// added to the column later, all that existed before. Workers then run it for them. Observers that have run already have nothing to do.
// Cells that were deleted before are not notified.
//
// Call it when every worker that takes the column has the observer: one that does not know it would consider the notifications
// dealt with. It returns when all are written; Worker.WaitIdle tells when they are done.
//
// It makes a few requests for RowsPerPage rows. Its position is kept in percolator_meta: after a crash, or when ctx has ended, the next call
// goes on from there, in this process or in another one. Two at once do no harm. Memory: one page of row keys and records.
//
// Errors: ErrSchemaMismatch when the column is not observed; ErrInvalidArgument for the options or the name; ErrCorrupt for a
// stored position that cannot be read. Cells that cannot be decoded are notified: their readers report them.
func (c *Client) BackfillObserver(ctx context.Context, table, column, observer string, opts ObserverOptions) (ObserverProgress, error) {
	w, err := c.newObserverWalk(ctx, backfillObserverRow, forgetObserverRow, table, column, observer, opts)
	if err != nil {
		return ObserverProgress{}, err
	}
	w.columns, w.page = []string{column, ackColumn(column, observer)}, w.notify
	return w.run(ctx)
}

// notify writes the notify cells of what the observer has not seen, at a new timestamp: later than every run that workers remember.
func (w *observerWalk) notify(ctx context.Context, rows []walkedRow) (int64, error) {
	now, err := w.c.next(ctx)
	if err != nil {
		return 0, err
	}
	var muts []rowMutation
	deadline := time.Now().Add(w.c.store.timing.RequestLifetime)
	for _, row := range rows {
		changed := row.seen[w.column].lastChange()
		run := row.seen[ackColumn(w.column, w.observer)].lastRunCommitted()
		if changed == 0 || changed <= run {
			continue
		}
		mut := bigtable.NewMutation()
		mut.Set(notifyFamily, w.column, cellTime(now), nil)
		muts = append(muts, rowMutation{table: w.table, row: row.key, mut: mut, deadline: deadline})
	}
	return int64(len(muts)), w.c.bulk.do(ctx, muts)
}

// lastRunCommitted is lastRun by what has been committed, whatever locks there are; 0 in doubt.
func (v *versions) lastRunCommitted() tso.Timestamp {
	if v == nil || v.corrupt != nil {
		return 0
	}
	run, _, _ := (&versions{writes: v.writes}).lastRun(tso.MaxTimestamp, recordsSeen)
	return run
}

// checkObserver checks an observer's name.
func checkObserver(at Cell, observer string) error {
	if observer == "" || strings.Contains(observer, "\x00") {
		return cellErr(ErrInvalidArgument, at, "an observer's name is empty or contains the byte 0x00")
	}
	return nil
}

// ForgetObserver deletes the acknowledgments of an observer that no worker has any more, and what is parked for it. An observer that is
// registered under the same name later starts from nothing: it is run for everything that is notified, or backfilled. Call it when no
// worker has the observer; a run that commits meanwhile leaves its acknowledgment, or conflicts.
//
// The acknowledgments are deleted by transactions of at most 128 rows each; the collector removes what is left of them.
// Position, memory and errors are those of BackfillObserver.
func (c *Client) ForgetObserver(ctx context.Context, table, column, observer string, opts ObserverOptions) (ObserverProgress, error) {
	w, err := c.newObserverWalk(ctx, forgetObserverRow, backfillObserverRow, table, column, observer, opts)
	if err != nil {
		return ObserverProgress{}, err
	}
	w.columns, w.page = []string{ackColumn(column, observer)}, w.forget
	p, err := w.run(ctx)
	if err == nil {
		err = c.forgetStandingsOf(ctx, table, column, observer)
	}
	return p, err
}

const forgottenAtOnce = 128 // rows of a transaction

// forget deletes the acknowledgments in rows.
func (w *observerWalk) forget(ctx context.Context, rows []walkedRow) (changed int64, err error) {
	column := ackColumn(w.column, w.observer)
	for chunk := range slices.Chunk(rows, forgottenAtOnce) {
		deleted := int64(0)
		_, err := w.c.Update(ctx, func(ctx context.Context, tx *Txn) error {
			deleted = 0
			for _, row := range chunk {
				v := row.seen[column]
				if v == nil || v.corrupt != nil || len(v.writes) == 0 || v.writes[0].kind == kindDelete {
					continue
				}
				if err := tx.put(&write{cell: Cell{w.table, row.key, column}, kind: kindDelete}); err != nil {
					return err
				}
				deleted++
			}
			return nil
		})
		if err != nil {
			return changed, err
		}
		changed += deleted
	}
	return changed, nil
}

// forgetStandingsOf erases what says how the observer stands. Its notifications remain, for whoever else observes the column.
func (c *Client) forgetStandingsOf(ctx context.Context, table, column, observer string) error {
	for row, err := range c.ScanPending(ctx, table, All()) {
		if err != nil {
			return err
		}
		for _, s := range row.Standings {
			if s.Cell.Column != column || s.Observer != observer {
				continue
			}
			if err := c.changeStandings(ctx, s.Cell, s.erasure()); err != nil {
				return err
			}
		}
	}
	return nil
}
