package observers

import (
	"context"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// attemptAcknowledged runs one observer for those of the observed cells whose newest change it has
// not acknowledged. At most one of several concurrent runs for a change commits, because all of
// them write the acknowledgment (docs/internals/PROTOCOL.md, I12). Once nothing is left to do for a
// cell up to the run's start timestamp, notifications up to there are erased (I13): by the mutation
// that commits the last acknowledgment, or here if another worker was faster.
func (w *Worker) attemptAcknowledged(ctx context.Context, r *run) []outcome {
	tx, err := w.begin(ctx, r)
	if err != nil {
		return r.all(w.failed(r, err, stagePrepare))
	}
	defer tx.Rollback(ctx)
	cells, start := cellsOf(r.attempt), tx.StartTimestamp()
	acks, err := tx.AcknowledgeAll(ctx, cells, r.runner.name, r.attempt[0].entry.column.names)
	if err != nil {
		return r.all(w.failed(r, err, stagePrepare))
	}
	outs := r.all(outcome{state: runUnread})
	var changes []Change
	var over []model.Notification
	for i, a := range acks {
		switch outs[i] = (outcome{state: runAcknowledged, through: start}); {
		case a.Run:
			changes = append(changes, Change{
				Cell: cells[i], Value: a.Value, Deleted: a.Deleted, CommitTS: a.CommitTS, Attempt: r.attempt[i].number,
			})
			continue
		case a.Finished:
			over = append(over, model.Notification{Cell: cells[i], Timestamp: start})
		}
		r.runner.counters.acknowledged.Add(1)
	}
	erased := w.erase(ctx, over...)
	var ran outcome
	if len(changes) > 0 {
		ran = w.commit(ctx, r, tx, changes)
	}
	for i, a := range acks {
		if a.Run {
			outs[i] = ran
		}
		if a.Finished && (a.Run || erased) {
			outs[i].finished = outs[i].through
		}
	}
	return outs
}

// cellsOf are the cells of jobs.
func cellsOf(jobs []job) []percolator.Cell {
	return ordered.Map(jobs, func(j job) percolator.Cell { return j.entry.column.cell(j.entry.row) })
}

// erase removes notifications of cells of one column, each up to its timestamp. If it fails they
// stay, and a look or a scan finds them.
func (w *Worker) erase(ctx context.Context, over ...model.Notification) bool {
	err := w.engine.Commits.ClearNotifications(ctx, over...)
	if err != nil {
		c := over[0].Cell
		w.log.Debug("observers: notifications were not erased", "table", c.Table, "row", c.Row, "column", c.Column, "cells", len(over), "err", err)
	}
	return err == nil
}
