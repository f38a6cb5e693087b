package observers

import (
	"context"

	"github.com/gopercolator/percolator/internal/commit"
)

// runAcknowledged runs one observer for one observed cell unless it has already acknowledged the
// newest change. At most one of several concurrent runs commits, because all of them write the
// acknowledgment (docs/PROTOCOL.md, I12). Once nothing is left to do up to the run's start
// timestamp, notifications up to there are erased (I13): by the mutation that commits the last
// acknowledgment, or here if another worker was faster.
func (w *Worker) runAcknowledged(ctx context.Context, tn turn) outcome {
	tx, err := w.engine.Commits.Begin(ctx, commit.TxnOptions{})
	if err != nil {
		return w.failed(tn, err, stagePrepare)
	}
	defer tx.Rollback(ctx)
	col := tn.entry.column
	cell := col.cell(tn.entry.row)
	ack, err := tx.Acknowledge(ctx, cell, tn.lane.name, col.names)
	if err != nil {
		return w.failed(tn, err, stagePrepare)
	}

	var out outcome
	if ack.Run {
		out = w.attempt(ctx, tn, tx, Change{
			Cell: cell, Value: ack.Value, Deleted: ack.Deleted, CommitTS: ack.CommitTS, Attempt: tn.attempt,
		})
		if out.start == 0 {
			return out
		}
	} else {
		tn.lane.counters.acknowledged.Add(1)
		out.start = tx.StartTimestamp()
	}
	if ack.Finished && (ack.Run || w.erase(ctx, cell, out.start)) {
		out.finished = out.start
	}
	return out
}
