package observers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// The rows of tables say what is parked: workers store it there, and operators list it and decide.

// Parked is a cell for which an observer has failed Config.MaxAttempts times on some worker. The
// row stores the observer state, and the notification stays: workers skip the observer until the
// cell is notified again, or until [Retry] or [Drop]. Other observers of the cell are not affected,
// and [Worker.WaitIdle] does not wait for it.
type Parked struct {
	Cell     percolator.Cell
	Observer string
	Attempts int           // of the worker that parked it
	Reason   string        // the text of the last error, at most model.MaxParkedReason bytes
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
func pendingRows(ctx context.Context, c *percolator.Client, tables []string) iter.Seq2[model.Pending, error] {
	e := c.Engine()
	return func(yield func(model.Pending, error) bool) {
		for _, table := range tables {
			if err := e.Meta.CheckTable(table); err != nil {
				yield(model.Pending{}, err)
				return
			}
		}
		if e.Meta.ByJournal() {
			e.Looker.Parked(ctx, tables...)(yield)
			return
		}
		for _, table := range tables {
			for row, err := range e.Reads.ScanPending(ctx, table, percolator.All()) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

func (p Parked) observerState() model.ObserverState {
	return model.ObserverState{Cell: p.Cell, Observer: p.Observer, Through: p.Through, Attempts: p.Attempts, Reason: p.Reason, Since: p.Since}
}

// Retry lets the observer run again on any worker, with as many attempts as for a new change: at
// once where clients hint (Config.DisableHints), or else when the journal or a scan leads to the
// cell. The observer sees the newest value.
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

// record stores what has to outlive this worker. An observer that has failed too often is parked.
// The store learns it before the queue: a worker that dies in between loses nothing, and one whose
// request fails tries the observer again. An observer that is done while another one is parked is
// recorded as well; otherwise every scan would look at it because of the remaining notification,
// and one of a weak column would run again (docs/internals/PROTOCOL.md, I19).
func (w *Worker) record(ctx context.Context, j job, out outcome) outcome {
	w.heedRepairs(ctx)
	switch {
	case w.queue.gone(j, out): // a repair has undone it
	case out.done() && out.finished == 0:
		if w.queue.otherParked(j) {
			w.store(ctx, j, model.ObserverState{Observer: j.runner.name, Through: out.through, Done: true})
		}
	case out.done():
		w.forgetFinished(ctx, j, out.finished)
	case out.parks() && j.number >= w.cfg.MaxAttempts && w.park(ctx, j, out.err):
		out.state = runParked
	}
	return out
}

// park stores that j's observer is parked for what was known when its last run started.
func (w *Worker) park(ctx context.Context, j job, reason error) bool {
	states := []model.ObserverState{{
		Observer: j.runner.name, Through: j.newest, Attempts: j.number, Reason: reason.Error(), Since: time.Now().UTC(),
		Observers: j.entry.column.names,
	}}
	for name, ran := range w.queue.othersDone(j) {
		states = append(states, model.ObserverState{Observer: name, Through: ran, Done: true})
	}
	if !w.store(ctx, j, states...) {
		return false
	}
	j.runner.counters.parked.Add(1)
	fields := []any{"observer", j.runner.name, "table", j.runner.table, "column", j.runner.column, "attempts", j.number}
	w.log.Warn("observers: a cell is parked", append(w.reason(fields, errors.Unwrap(reason)), "look", "percolator notify ls "+j.runner.table)...)
	return true
}

// store writes observer states of j's cell.
func (w *Worker) store(ctx context.Context, j job, states ...model.ObserverState) bool {
	for i := range states {
		states[i].Cell = j.entry.column.cell(j.entry.row)
	}
	// After that the worker tries the observer again.
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, 2*w.cfg.MaxBackoff))
	defer cancel()
	w.queue.setStored(j) // also if the answer is lost
	if err := w.engine.Commits.SetObserverStates(ctx, states...); err != nil {
		w.engine.Store.Warn(w.log, "observers: that an observer is parked, or done beside a parked one, could not be stored", err, "table", j.runner.table, "column", j.runner.column)
		return false
	}
	return true
}

// statesOf groups the stored observer states of a row by column, each in the order of the column's
// observers.
func (w *Worker) statesOf(row model.Pending) map[string][]observerState {
	if len(row.States) == 0 {
		return nil
	}
	known := map[string][]observerState{}
	for _, s := range row.States {
		col := w.coverage.taken[Column{row.Table, s.Cell.Column}]
		if col == nil {
			continue
		}
		if known[col.Name] == nil {
			known[col.Name] = make([]observerState, len(col.names))
		}
		for i, name := range col.names {
			switch {
			case name != s.Observer:
			case s.Done:
				known[col.Name][i].ran = s.Through
			default:
				known[col.Name][i].parked = s.Through
			}
		}
	}
	return known
}

// forgetFinished erases the observer states of a cell whose notification is gone (I19), if it may
// have any. What it misses a look or a scan finds.
func (w *Worker) forgetFinished(ctx context.Context, j job, upTo tso.Timestamp) {
	if !w.queue.hasStored(j) {
		return
	}
	var over []model.ObserverState
	for _, name := range j.entry.column.names {
		for _, done := range []bool{false, true} {
			over = append(over, model.ObserverState{Cell: j.entry.column.cell(j.entry.row), Observer: name, Through: upTo, Done: done})
		}
	}
	if err := w.engine.Commits.ForgetObserverStates(ctx, over...); err != nil {
		w.log.Debug("observers: observer states were not erased", "table", j.runner.table, "row", j.entry.row, "err", err)
	}
}

// forgetObserverStates erases the observer states of columns without a notification: their cells
// were handled after all (I19).
func (w *Worker) forgetObserverStates(ctx context.Context, row model.Pending) {
	if len(row.States) == 0 {
		return
	}
	notified := map[string]bool{}
	for _, n := range row.Notified {
		notified[n.Cell.Column] = true
	}
	var over []model.ObserverState
	for _, s := range row.States {
		if !notified[s.Cell.Column] && w.coverage.taken[Column{row.Table, s.Cell.Column}] != nil {
			over = append(over, s)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	if err := w.engine.Commits.ForgetObserverStates(ctx, over...); err != nil {
		w.log.Debug("observers: observer states were not erased", "table", row.Table, "row", row.Row, "err", err)
	}
}
