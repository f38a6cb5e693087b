package observers

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Parked is a cell for which an observer has failed Config.MaxAttempts times on some worker. The
// row stores the observer state, and the notification stays: workers skip the observer until the
// cell is notified again, or until [Retry] or [Drop]. Other observers of the cell are not affected,
// and [Worker.WaitIdle] does not wait for it.
type Parked struct {
	Cell     percolator.Cell
	Observer string
	Attempts int           // of the worker that parked it
	Reason   string        // the text of the last error, at most percolator.MaxParkedReason bytes
	Since    time.Time     // by that worker's clock
	Through  tso.Timestamp // of the newest notification that the observer was run for
}

// ListParked streams what is parked in tables, ordered by cell; without tables, in all of the
// client's schema. It reads the rows that the journal lists as parked, 1,024 with one request, or
// without a journal all notifications and locks of the tables. Errors: percolator.ErrSchemaMismatch
// for a table that is not in the schema, the store's, and the context's.
func ListParked(ctx context.Context, c *percolator.Client, tables ...string) iter.Seq2[Parked, error] {
	if len(tables) == 0 {
		for _, t := range c.Schema().Tables {
			if len(t.Observed)+len(t.Weak) > 0 {
				tables = append(tables, t.Name)
			}
		}
	}
	return func(yield func(Parked, error) bool) {
		for row, err := range pendingRows(store.InBackground(ctx), c, tables) {
			if err != nil {
				yield(Parked{}, fmt.Errorf("observers: listing what is parked: %w", err))
				return
			}
			for _, n := range row.Notified {
				for _, s := range row.Parked(n) { // for n: not notified anew since, nor done
					if !yield(Parked{s.Cell, s.Observer, s.Attempts, s.Reason, s.Since, s.Through}, nil) {
						return
					}
				}
			}
		}
	}
}

// pendingRows streams all rows of tables in which something may be parked.
func pendingRows(ctx context.Context, c *percolator.Client, tables []string) iter.Seq2[layout.Pending, error] {
	e := c.Engine()
	return func(yield func(layout.Pending, error) bool) {
		for _, table := range tables {
			if err := e.Meta.CheckTable(table); err != nil {
				yield(layout.Pending{}, err)
				return
			}
			rows := e.Looker.Parked(ctx, table)
			if !e.Meta.ByJournal() {
				rows = e.Reads.ScanPending(ctx, table, percolator.All())
			}
			for row, err := range rows {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

func (p Parked) observerState() layout.ObserverState {
	return layout.ObserverState{Cell: p.Cell, Observer: p.Observer, Through: p.Through, Attempts: p.Attempts, Reason: p.Reason, Since: p.Since}
}

// Retry lets the observer run again on any worker, with as many attempts as for a new change, once
// the journal, or a scan without one, leads to the cell. The observer sees the newest value.
// Retrying what is not parked is harmless. If a worker's request to park the cell arrives late, the
// cell is parked and listed once more. Errors are the store's and the context's.
func Retry(ctx context.Context, c *percolator.Client, p Parked) error {
	return c.Engine().Commits.RetryParked(ctx, p.observerState())
}

// Drop abandons the change: the observer counts as having run for it, without effect, and runs for
// the next one. This cannot be undone. percolator.ErrConflict: the cell has changed since it was
// parked, so workers try it again by themselves. Other errors are the store's and the context's.
func Drop(ctx context.Context, c *percolator.Client, p Parked) error {
	return c.Engine().Commits.DropParked(ctx, p.observerState())
}
