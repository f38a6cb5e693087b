package observers

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/tso"
)

// record stores what has to outlive this worker. An observer that has failed too often is parked.
// The store learns it before the queue: a worker that dies in between loses nothing, and one whose
// request fails tries the observer again. An observer that is done while another one is parked is
// recorded as well; otherwise every scan would look at it because of the remaining notification,
// and one of a weak column would run again (docs/PROTOCOL.md, I19).
func (w *Worker) record(ctx context.Context, tn turn, out outcome) outcome {
	w.heedRepairs(ctx)
	switch {
	case w.queue.gone(tn, out), out.dropped, out.parked: // already
	case out.start != 0 && out.finished == 0:
		if w.queue.otherParked(tn) {
			w.store(ctx, tn, layout.ObserverState{Observer: tn.lane.name, Through: out.start, Done: true})
		}
	case out.start != 0:
		w.forgetFinished(ctx, tn, out.finished)
	case !out.snoozed && !out.blameless && !out.locked && tn.attempt >= w.cfg.MaxAttempts:
		out.parked = w.park(ctx, tn, out.err)
	}
	return out
}

// park stores that tn's observer is parked for what was known when its last run began.
func (w *Worker) park(ctx context.Context, tn turn, reason error) bool {
	states := []layout.ObserverState{{
		Observer: tn.lane.name, Through: tn.newest, Attempts: tn.attempt, Reason: reason.Error(), Since: time.Now().UTC(),
		Observers: tn.entry.column.names,
	}}
	for name, ran := range w.queue.othersDone(tn) {
		states = append(states, layout.ObserverState{Observer: name, Through: ran, Done: true})
	}
	if !w.store(ctx, tn, states...) {
		return false
	}
	tn.lane.counters.parked.Add(1)
	w.log.Warn("observers: a cell is parked", "observer", tn.lane.name, "table", tn.lane.table, "column", tn.lane.column, "attempts", tn.attempt, "look", "percolator notify ls "+tn.lane.table)
	return true
}

// store writes observer states of tn's cell.
func (w *Worker) store(ctx context.Context, tn turn, states ...layout.ObserverState) bool {
	for i := range states {
		states[i].Cell = tn.entry.column.cell(tn.entry.row)
	}
	// After that the worker tries the observer again.
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, 2*w.cfg.MaxBackoff))
	defer cancel()
	w.queue.setStored(tn) // also if the answer is lost
	if err := w.engine.Commits.SetObserverStates(ctx, states...); err != nil {
		w.log.Warn("observers: that an observer is parked, or done beside a parked one, could not be stored", "table", tn.lane.table, "column", tn.lane.column)
		w.log.Debug("observers: observer states not stored", "row", tn.entry.row, "err", err)
		return false
	}
	return true
}

// statesOf groups the stored observer states of a row by column, each in the order of the column's
// observers.
func (w *Worker) statesOf(row layout.Pending) map[string][]observerState {
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
func (w *Worker) forgetFinished(ctx context.Context, tn turn, upTo tso.Timestamp) {
	if !w.queue.hasStored(tn) {
		return
	}
	var over []layout.ObserverState
	for _, name := range tn.entry.column.names {
		for _, done := range []bool{false, true} {
			over = append(over, layout.ObserverState{Cell: tn.entry.column.cell(tn.entry.row), Observer: name, Through: upTo, Done: done})
		}
	}
	if err := w.engine.Commits.ForgetObserverStates(ctx, over...); err != nil {
		w.log.Debug("observers: observer states were not erased", "table", tn.lane.table, "row", tn.entry.row, "err", err)
	}
}

// forgetObserverStates erases the observer states of columns without a notification: their cells
// were handled after all (I19).
func (w *Worker) forgetObserverStates(ctx context.Context, row layout.Pending) {
	if len(row.States) == 0 {
		return
	}
	notified := map[string]bool{}
	for _, n := range row.Notified {
		notified[n.Cell.Column] = true
	}
	var over []layout.ObserverState
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
