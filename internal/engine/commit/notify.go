package commit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// notifyWeak writes the weak notifications at commit_ts, before the commit request. After it a
// crash would lose them, and a run that began in between would erase any with an earlier timestamp
// (I11). A notification of a transaction that then aborts costs a spurious run.
func (cm *commit) notifyWeak(ctx context.Context, commitTS tso.Timestamp, deadline time.Time) error {
	if len(cm.weak) == 0 {
		return nil
	}
	if err := cm.checkAge(ctx); err != nil { // the deadline began before
		return err
	}
	cm.toldWeakly = true
	rows := map[layout.RowID]*store.Mutation{}
	for _, c := range cm.weak {
		k := layout.RowID{Table: c.Table, Key: c.Row}
		if rows[k] == nil {
			rows[k] = store.NewMutation(2)
		}
		rows[k].Put(layout.NotifyFamily, c.Column, commitTS, nil)
	}
	muts := make([]store.RowMutation, 0, len(rows))
	for k, m := range rows {
		muts = append(muts, store.RowMutation{Table: k.Table, Row: k.Key, Mut: m, Deadline: deadline})
	}
	err := cm.c.Bulk.Do(ctx, muts)
	if err == nil {
		cm.c.Done(cm.announced, cm.weak...)
	}
	return err
}

// notifyOnly commits a transaction that writes nothing and only notifies weakly: there is nothing
// to lock.
func (cm *commit) notifyOnly(ctx context.Context) (tso.Timestamp, error) {
	a, err := cm.c.Announce(ctx, WeakRows(cm.weak))
	if err != nil {
		return 0, err
	}
	cm.announced = a
	if err := cm.notifyWeak(ctx, a.TS, a.Deadline); err != nil {
		return 0, retry.WithContext(ctx, err)
	}
	cm.notified(cm.weak, a.TS)
	return a.TS, nil
}

// ClearNotification erases the notify cells of cell with timestamps up to upTo, in the background.
// The caller has established that no observer of the cell has work left up to then (I13); a later
// change keeps its notification.
func (c *Committer) ClearNotification(ctx context.Context, cell model.Cell, upTo tso.Timestamp) error {
	return c.ClearNotifications(ctx, model.Notification{Cell: cell, Timestamp: upTo})
}

// ClearNotifications is ClearNotification for cells of one column, each up to its timestamp.
func (c *Committer) ClearNotifications(ctx context.Context, over ...model.Notification) error {
	if err := retry.CheckContext(ctx); err != nil || len(over) == 0 {
		return err
	}
	column := over[0].Cell
	info, ok := c.Meta.Catalog.Load().UserTable(column.Table)
	if !ok {
		return c.Meta.Catalog.Load().UnknownTable(column.Table)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	earliest := over[0].Timestamp
	for _, n := range over {
		earliest = min(earliest, n.Timestamp)
	}
	asked := time.Now()
	until, err := c.Meta.CheckRepairing(ctx)
	if err := errors.Join(err, c.Meta.CheckCommit(ctx, earliest, nil)); err != nil {
		return err // a repair removes, or has removed, the acknowledgments that were seen at upTo
	}
	var trace tso.Timestamp
	if info.IsWeak[column.Column] {
		if trace, err = c.traceTime(ctx); err != nil {
			return err
		}
	}
	muts := make([]store.RowMutation, len(over))
	for i, n := range over {
		mut := store.NewMutation(2)
		mut.ClearNotify(n.Cell.Column, n.Timestamp)
		if trace != 0 {
			leaveTrace(mut, n.Cell.Column, trace)
		}
		muts[i] = store.RowMutation{Table: n.Cell.Table, Row: n.Cell.Row, Mut: mut, Deadline: until, Done: func(err error) {
			if err != nil {
				c.Store.Warn(c.Config.Logger, "notification not erased; it will be found again", err, "table", n.Cell.Table, "column", n.Cell.Column)
				return
			}
			c.Journal.Own.Cleared(n.Cell, n.Timestamp, asked)
		}}
	}
	offer := c.Bulk.Offer(ctx)
	for part := range slices.Chunk(muts, store.RequestRows) {
		offer.Add(part...)
	}
	return nil
}

// traceTime returns the timestamp of the traces that the erasure of weak notifications has to
// leave, as an export may be running (I21); 0: none. Expired holds count as long as they are
// stored, since a stored hold can be extended.
func (c *Committer) traceTime(ctx context.Context) (tso.Timestamp, error) {
	m, err := c.Meta.Known(ctx)
	if err != nil || len(m.Holds) == 0 {
		return 0, err
	}
	return c.Clock.Next(ctx)
}

// leaveTrace adds a trace to the mutation that erases weak notifications of column.
func leaveTrace(mut *store.Mutation, column string, ts tso.Timestamp) {
	// The newest trace suffices.
	mut.EraseBetween(layout.WriteFamily, layout.TracePrefix+column, 0, ts)
	mut.Put(layout.WriteFamily, layout.TracePrefix+column, ts, layout.EncodeWrite(ts, layout.KindRollback))
}
