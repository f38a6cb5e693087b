package percolator

import (
	"context"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// Notification is a dirty cell: the cell changed, or was notified weakly, at the timestamp.
type Notification struct {
	Cell      Cell
	Timestamp tso.Timestamp
}

// listeners are told of notify cells as they are written; observers use that for direct dispatch.
type listeners struct {
	mu   sync.RWMutex
	next int
	fns  []listener
}

type listener struct {
	id int
	f  func(Notification) (taken bool)
}

// OnNotify calls f for every notify cell that this client writes, after its row carries it: for its own commits, their
// phase two, and locks that it rolls forward. It is a hint – what other clients write is not seen. f is called from many
// goroutines and must not block. remove ends the calls.
func (c *Client) OnNotify(f func(Notification)) (remove func()) {
	return c.HandleNotify(func(n Notification) bool { f(n); return false })
}

// HandleNotify is OnNotify for one who acts on notifications: f returns whether it has taken this one up. What nobody in
// this process takes up is hinted at to other processes (AwaitNotifications).
func (c *Client) HandleNotify(f func(Notification) (taken bool)) (remove func()) {
	l := &c.listeners
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	id := l.next
	l.fns = append(l.fns, listener{id, f})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fns = slices.DeleteFunc(slices.Clone(l.fns), func(x listener) bool { return x.id == id })
	}
}

func (c *Client) notified(n Notification) {
	c.count.notifications.Add(1)
	c.listeners.mu.RLock()
	fns := c.listeners.fns
	c.listeners.mu.RUnlock()
	taken := false
	for _, l := range fns {
		taken = l.f(n) || taken
	}
	if !taken {
		c.hints.leave(c.background, n)
	}
}

// notifyWeak writes the weak notifications at commit_ts. It comes before the commit request: after it, a crash would lose them,
// and with an earlier timestamp a run that began in between would erase them (I11). One that is written for a transaction
// that then aborts costs a spurious run.
func (cm *commit) notifyWeak(ctx context.Context, commitTS tso.Timestamp) error {
	if len(cm.weak) == 0 {
		return nil
	}
	type key struct{ table, row string }
	rows := map[key]*bigtable.Mutation{}
	for _, c := range cm.weak {
		k := key{c.Table, c.Row}
		if rows[k] == nil {
			rows[k] = bigtable.NewMutation()
		}
		rows[k].Set(notifyFamily, c.Column, cellTime(commitTS), nil)
	}
	muts := make([]rowMutation, 0, len(rows))
	deadline := time.Now().Add(cm.c.store.timing.RequestLifetime)
	for k, m := range rows {
		muts = append(muts, rowMutation{table: k.table, row: k.row, mut: m, deadline: deadline})
	}
	return cm.c.bulk.do(ctx, muts)
}

// notifyOnly commits a transaction that writes nothing and notifies weakly: there is nothing to lock.
func (cm *commit) notifyOnly(ctx context.Context) (tso.Timestamp, error) {
	ts, err := cm.c.next(ctx)
	if err != nil {
		return 0, err
	}
	if err := cm.notifyWeak(ctx, ts); err != nil {
		return 0, withContext(ctx, err)
	}
	for _, cell := range cm.weak {
		cm.c.notified(Notification{cell, ts})
	}
	return ts, nil
}

// settledUpTo is the end, exclusive, of the notifications that a run which began at startTS has settled: a change that came
// during the run has a later one (I13).
func settledUpTo(startTS tso.Timestamp) bigtable.Timestamp {
	return cellTime(startTS + 1)
}

// ClearNotification erases the notify cells of cell with timestamps up to upTo, in the background. The caller has
// established that no observer of the cell has work left up to then (I13); a later change keeps its notification.
func (c *Client) ClearNotification(ctx context.Context, cell Cell, upTo tso.Timestamp) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	info, ok := c.catalog.Load().user(cell.Table)
	if !ok {
		return unknownTable(cell.Table)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline := time.Now().Add(c.store.timing.RequestLifetime)
	mut := bigtable.NewMutation()
	mut.DeleteTimestampRange(notifyFamily, cell.Column, 0, settledUpTo(upTo))
	if info.weak[cell.Column] {
		if err := c.leaveTrace(ctx, mut, cell.Column); err != nil {
			return err
		}
	}
	c.bulk.add(ctx, rowMutation{table: cell.Table, row: cell.Row, mut: mut, deadline: deadline, done: func(err error) {
		if err != nil {
			c.cfg.Logger.Warn("notification not erased; it will be found again", "table", cell.Table, "column", cell.Column, "error", err)
		}
	}})
	return nil
}

// Notified reports whether a cell carries a notification, observed or weak. Concurrent calls for cells of one column travel together. Errors:
// ErrSchemaMismatch (unknown table), ErrInvalidArgument (names), and those of the store.
func (c *Client) Notified(ctx context.Context, cell Cell) (bool, error) {
	if err := checkContext(ctx); err != nil {
		return false, err
	}
	if err := c.checkReadable(cell); err != nil {
		return false, err
	}
	a, err := c.fetchOne(ctx, rowQuery{table: cell.Table, columns: []string{cell.Column}, window: 1, notify: true}, cell.Row)
	return a.notified, err
}
