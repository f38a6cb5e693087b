package commit

import (
	"context"
	"errors"
	"time"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/tso"
)

// notifyWeak writes the weak notifications at commit_ts, before the commit request. After it a
// crash would lose them, and a run that began in between would erase any with an earlier timestamp
// (I11). A notification of a transaction that then aborts costs a spurious run.
func (cm *commit) notifyWeak(ctx context.Context, commitTS tso.Timestamp, deadline time.Time) error {
	if len(cm.weak) == 0 {
		return nil
	}
	cm.toldWeakly = true
	rows := map[rowKey]*store.Mutation{}
	for _, c := range cm.weak {
		k := rowKey{c.Table, c.Row}
		if rows[k] == nil {
			rows[k] = store.NewMutation(2)
		}
		rows[k].Put(layout.NotifyFamily, c.Column, commitTS, nil)
	}
	muts := make([]store.RowMutation, 0, len(rows))
	for k, m := range rows {
		muts = append(muts, store.RowMutation{Table: k.table, Row: k.row, Mut: m, Deadline: deadline})
	}
	return cm.c.Bulk.Do(ctx, muts)
}

// notifyOnly commits a transaction that writes nothing and only notifies weakly: there is nothing
// to lock.
func (cm *commit) notifyOnly(ctx context.Context) (tso.Timestamp, error) {
	a, err := cm.c.Announce(ctx, WeakRows(cm.weak))
	if err != nil {
		return 0, err
	}
	if err := cm.notifyWeak(ctx, a.TS, a.Deadline); err != nil {
		return 0, model.WithContext(ctx, err)
	}
	cm.c.Done(a, cm.weak...)
	for _, cell := range cm.weak {
		cm.c.Dispatch.Notified(model.Notification{Cell: cell, Timestamp: a.TS})
	}
	return a.TS, nil
}

// ClearNotification erases the notify cells of cell with timestamps up to upTo, in the background.
// The caller has established that no observer of the cell has work left up to then (I13); a later
// change keeps its notification.
func (c *Committer) ClearNotification(ctx context.Context, cell model.Cell, upTo tso.Timestamp) error {
	if err := model.CheckContext(ctx); err != nil {
		return err
	}
	info, ok := c.Meta.Catalog.Load().UserTable(cell.Table)
	if !ok {
		return model.UnknownTable(cell.Table)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := errors.Join(c.Meta.CheckRepairing(ctx), c.Meta.CheckCommit(ctx, upTo)); err != nil {
		return err // a repair removes, or has removed, the acknowledgments that were seen at upTo
	}
	deadline := time.Now().Add(c.Store.Timing.RequestLifetime)
	mut := store.NewMutation(2)
	mut.ClearNotify(cell.Column, upTo)
	if info.IsWeak[cell.Column] {
		if err := c.leaveTrace(ctx, mut, cell.Column); err != nil {
			return err
		}
	}
	c.Bulk.Add(ctx, store.RowMutation{Table: cell.Table, Row: cell.Row, Mut: mut, Deadline: deadline, Done: func(err error) {
		if err != nil {
			c.Config.Logger.Warn("notification not erased; it will be found again", "table", cell.Table, "column", cell.Column, "error", err)
			return
		}
		c.Journal.Own.Cleared(cell, upTo)
	}})
	return nil
}

// leaveTrace adds a trace to the mutation that erases weak notifications of column, if an export
// may be under way (I21). Expired holds count as long as they are stored, since a stored hold can
// be extended.
func (c *Committer) leaveTrace(ctx context.Context, mut *store.Mutation, column string) error {
	m, err := c.Meta.Known(ctx)
	if err != nil || len(m.Holds) == 0 {
		return err
	}
	ts, err := c.Clock.Next(ctx)
	if err != nil {
		return err
	}
	mut.EraseBetween(layout.WriteFamily, layout.TracePrefix+column, 0, ts) // the newest one says all
	mut.Put(layout.WriteFamily, layout.TracePrefix+column, ts, layout.EncodeWrite(ts, layout.KindRollback))
	return nil
}
