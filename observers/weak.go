package observers

import (
	"context"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// attemptWeak runs one observer for weak notifications, which have no acknowledgment. When all
// observers of the column have committed for a cell, it erases notifications up to the earliest of
// their start timestamps. That loses nothing, because a later notification has a later timestamp
// (docs/internals/PROTOCOL.md, I11). A crash before that makes all of them run again.
func (w *Worker) attemptWeak(ctx context.Context, r *run) []outcome {
	outs, cells := r.all(outcome{}), cellsOf(r.attempt)
	left, err := w.recheck(ctx, r, cells, outs)
	if err != nil {
		return r.all(w.failed(r, err, stagePrepare))
	}
	if len(left) > 0 {
		ran := w.runNotified(ctx, r, cells, left)
		for _, i := range left {
			outs[i] = ran
		}
	}
	w.endWeak(ctx, r, cells, outs)
	return outs
}

// recheck looks again at notifications that another worker may have handled since. It returns the
// places of those that are left to be run for, and sets the outcomes of the others.
func (w *Worker) recheck(ctx context.Context, r *run, cells []percolator.Cell, outs []outcome) (left []int, err error) {
	var again []int
	var look []percolator.Cell
	for i, j := range r.attempt {
		if j.recheck {
			again, look = append(again, i), append(look, cells[i])
		} else {
			left = append(left, i)
		}
	}
	if len(again) == 0 {
		return left, nil
	}
	asOf := w.queue.asOf()
	rows, err := w.engine.Reads.PendingOfAll(ctx, look)
	if err != nil {
		return nil, err
	}
	for k, i := range again {
		var done bool
		if outs[i], done = w.handled(r.attempt[i], cells[i], rows[k], asOf); !done {
			left = append(left, i)
		}
	}
	slices.Sort(left)
	return left, nil
}

// handled reports whether nothing is left to do for a weak notification by its row, which was read
// after the queue was at asOf, and how that ends the job.
func (w *Worker) handled(j job, cell percolator.Cell, row model.Pending, asOf uint64) (out outcome, done bool) {
	if !row.Notifies(cell, tso.MaxTimestamp, 1) { // another worker has run for it
		j.runner.counters.acknowledged.Add(1)
		// It says nothing about later ones: any client can leave a hint with any timestamp.
		return outcome{state: runErased, through: j.newest}, true
	}
	switch ran, done := w.queue.learn(j, &storedStates{asOf, w.statesOf(row)[cell.Column]}); {
	case done && ran == 0: // parked by another worker
		return outcome{state: runParked}, true
	case done: // it ran on another worker, and the notification is there for other observers
		j.runner.counters.acknowledged.Add(1)
		return outcome{state: runAcknowledged, through: ran}, true
	}
	return outcome{}, false
}

// runNotified runs the observer for those of the cells that are left.
func (w *Worker) runNotified(ctx context.Context, r *run, cells []percolator.Cell, left []int) outcome {
	tx, err := w.engine.Commits.Begin(ctx, commit.TxnOptions{})
	if err != nil {
		return w.failed(r, err, stagePrepare)
	}
	defer tx.Rollback(ctx)
	changes := ordered.Map(left, func(i int) Change {
		return Change{Cell: cells[i], Weak: true, CommitTS: r.attempt[i].newest, Attempt: r.attempt[i].number}
	})
	return w.commit(ctx, r, tx, changes)
}

// endWeak erases the notifications that all observers have dealt with, where this one was the last.
func (w *Worker) endWeak(ctx context.Context, r *run, cells []percolator.Cell, outs []outcome) {
	var last []int
	var over []model.Notification
	for i, out := range outs {
		if !out.done() || out.state == runErased {
			continue
		}
		if upTo, ok := w.queue.lastOf(r.attempt[i], out.through); ok {
			last, over = append(last, i), append(over, model.Notification{Cell: cells[i], Timestamp: upTo})
		}
	}
	if !w.erase(ctx, over...) {
		return
	}
	for k, i := range last {
		outs[i].finished = over[k].Timestamp
	}
}
