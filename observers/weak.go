package observers

import (
	"context"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// runWeak runs one observer for one weak notification, which has no acknowledgment. When all
// observers of the column have committed, it erases notifications up to the earliest of their start
// timestamps. That loses nothing, because a later notification has a later timestamp
// (docs/PROTOCOL.md, I11). A crash before that makes all of them run again.
func (w *Worker) runWeak(ctx context.Context, tn turn) outcome {
	col := tn.entry.column
	cell := col.cell(tn.entry.row)
	if tn.stale {
		asOf := w.queue.asOf()
		row, err := w.engine.Reads.PendingOf(ctx, cell)
		switch {
		case err != nil:
			return w.failed(tn, err, stagePrepare)
		case !row.Notifies(cell, tso.MaxTimestamp, 1): // another worker has run for it
			tn.lane.counters.acknowledged.Add(1)
			return outcome{start: tn.newest} // says nothing about later ones: anybody can leave a hint with any timestamp
		}
		switch ran, over := w.queue.learn(tn, &storedStates{asOf, w.statesOf(row)[cell.Column]}); {
		case over && ran == 0: // parked by another worker
			return outcome{parked: true}
		case over: // it ran on another worker, and the notification is there for other observers
			tn.lane.counters.acknowledged.Add(1)
			return w.endWeak(ctx, tn, cell, outcome{start: ran})
		}
	}
	tx, err := w.engine.Commits.Begin(ctx, commit.TxnOptions{})
	if err != nil {
		return w.failed(tn, err, stagePrepare)
	}
	defer tx.Rollback(ctx)
	out := w.attempt(ctx, tn, tx, Change{Cell: cell, Weak: true, CommitTS: tn.newest, Attempt: tn.attempt})
	if out.start == 0 {
		return out
	}
	return w.endWeak(ctx, tn, cell, out)
}

// endWeak erases the notifications that all observers have dealt with, if tn was the last.
func (w *Worker) endWeak(ctx context.Context, tn turn, cell percolator.Cell, out outcome) outcome {
	if upTo, last := w.queue.lastOf(tn, out.start); last && w.erase(ctx, cell, upTo) {
		out.finished = upTo
	}
	return out
}
