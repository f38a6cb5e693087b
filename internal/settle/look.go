// Package settle finishes what transactions have left behind, by their entries in the journal: each
// client looks at its own (J4), and a worker adopts the streams of clients that died (J5). It stands
// on journal and locks, beneath engine; it writes nothing to users' tables but by resolving locks.
package settle

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/dispatch"
	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/locks"
	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/internal/timestamps"
	"github.com/gopercolator/percolator/tso"
)

// A look decides whether entries are settled (J4). The order matters:
//
//	1. the primary decides each transaction; one that has left nothing there gets the marker (I8),
//	   once its owner is dead, so that it cannot commit behind the look
//	2. the rows are read, many in one request, their locks and notifications alone
//	3. a lock of the transaction is resolved, a notification that it may have written is dispatched;
//	   either leaves the entry unsettled until a later look finds it gone
//
// What has no record of its own to tell its time, such as a weak notification of a transaction that
// was rolled back, is looked for up to a timestamp that was asked for when none of its requests can
// be under way any more: one request lifetime after the entry was first read (J2).
//
// Rejected: looking at the rows first. They would show nothing of a transaction that is about to
// prewrite, and the position would pass it.

// Limits of a look.
const (
	lookAtOnce   = 8  // primaries, and locks to resolve
	lookVersions = 64 // notify cells of a column; below that many all are known
	lookKeys     = 480 << 10
)

// Looker looks at the rows of entries. It is safe for concurrent use.
type Looker struct {
	Store    *store.Store
	Clock    *timestamps.Source
	Meta     *meta.Watcher
	Locks    *locks.Resolver
	Dispatch *dispatch.Dispatcher
	Config   model.Settings
	// Found begins a look: what it returns hears of each notification that nobody may know of, and of
	// the row that holds it, as it was read later. nil: Dispatch hears of them.
	Found func() Found
}

// Found hears of a notification in a row.
type Found func(ctx context.Context, row layout.Pending, n model.Notification)

// Item is an entry that is to be looked at.
type Item struct {
	journal.Entry
	Session  string        // of its owner; "": unknown
	Read     time.Time     // when the looker first read it, by the monotonic clock
	CommitTS tso.Timestamp // known to have committed then; 0: not known

	decided bool
	bound   tso.Timestamp // of the notifications that it may have written; 0: none
}

// Look reports which items are settled. An error leaves the others for later.
func (l *Looker) Look(ctx context.Context, items []*Item) (settled []bool, err error) {
	settled, asked := make([]bool, len(items)), time.Now()
	l.Store.Count.Looks.Add(1)
	now, err := l.Clock.Next(ctx)
	if err != nil {
		return settled, err
	}
	if err := l.decideAll(ctx, items, asked, now); err != nil {
		return settled, err
	}
	found := func(_ context.Context, _ layout.Pending, n model.Notification) { l.Dispatch.Notified(n) }
	if l.Found != nil {
		found = l.Found()
	}
	rows, err := l.readRows(ctx, items)
	if err != nil {
		return settled, err
	}
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(lookAtOnce)
	for i, it := range items {
		if !it.decided {
			continue
		}
		g.Go(func() error {
			clean, err := l.clean(gctx, it, rows, found)
			mu.Lock()
			defer mu.Unlock()
			settled[i] = clean && err == nil
			return err
		})
	}
	return settled, g.Wait()
}

// decideAll decides the transactions of items, and how far their notifications reach.
func (l *Looker) decideAll(ctx context.Context, items []*Item, asked time.Time, now tso.Timestamp) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lookAtOnce)
	for _, it := range items {
		over := asked.Sub(it.Read) >= l.Store.Timing.RequestLifetime // none of its requests was under way
		g.Go(func() error { return l.decide(ctx, it, over, now) })
	}
	return g.Wait()
}

func (l *Looker) decide(ctx context.Context, it *Item, over bool, now tso.Timestamp) error {
	if it.Primary == (model.Cell{}) {
		it.decided, it.bound = over, now
		return nil
	}
	status, err := l.status(ctx, it, now)
	if err != nil {
		return err
	}
	switch status.State {
	case locks.TxnCommitted:
		it.decided, it.bound = true, status.CommitTS
	case locks.TxnRolledBack:
		it.decided = over || !it.notifiesWeakly()
		if it.notifiesWeakly() {
			it.bound = now
		}
	case locks.TxnUnknown: // at or below the watermark: its record may have been collected
		it.decided, it.bound = over, now
	}
	return nil
}

// notifiesWeakly reports whether the transaction may have notified before it committed.
func (it *Item) notifiesWeakly() bool {
	return slices.ContainsFunc(it.Rows, func(r journal.Row) bool { return r.Weak })
}

// status is final, but for TxnLocked, of a transaction that is alive, and TxnUnknown, of one that
// may have been collected.
func (l *Looker) status(ctx context.Context, it *Item, now tso.Timestamp) (locks.TxnStatus, error) {
	if it.CommitTS != 0 {
		return locks.TxnStatus{State: locks.TxnCommitted, CommitTS: it.CommitTS}, nil
	}
	if !l.Meta.KnowsTable(ctx, it.Primary.Table) {
		return locks.TxnStatus{State: locks.TxnUnknown}, nil
	}
	for {
		s, err := l.Locks.Status(ctx, it.Primary, it.StartTS)
		switch {
		case err != nil || s.State == locks.TxnCommitted || s.State == locks.TxnRolledBack:
			return s, err
		case s.State == locks.TxnLocked:
			r, err := l.Locks.ResolveLock(ctx, s.Lock.Export(it.Primary))
			if err != nil || r == model.LockAlive {
				return s, err
			}
			continue
		}
		if m, err := l.Meta.Refresh(ctx); err != nil || it.StartTS <= m.Watermark {
			return s, err
		}
		if now <= it.StartTS.Add(l.Config.LockTTL) && !l.Locks.SessionEnded(ctx, it.Session) {
			return locks.TxnStatus{State: locks.TxnLocked}, nil
		}
		if _, err := l.Locks.RollBackPrimary(ctx, it.Primary, it.StartTS, nil); err != nil {
			return s, err
		}
	}
}

// readRows reads locks and notifications of all rows of the items that are decided.
func (l *Looker) readRows(ctx context.Context, items []*Item) (map[RowID]layout.Pending, error) {
	keys := map[string]map[string]bool{}
	var highest tso.Timestamp
	for _, it := range items {
		if !it.decided {
			continue
		}
		highest = max(highest, it.bound)
		for _, r := range it.Rows {
			if !l.Meta.KnowsTable(ctx, r.Table) {
				continue // the schema has lost it, with everything in it
			}
			if keys[r.Table] == nil {
				keys[r.Table] = map[string]bool{}
			}
			keys[r.Table][r.Key] = true
		}
	}
	rows := map[RowID]layout.Pending{}
	for table, names := range keys {
		for chunk := range store.KeyChunks(slices.Sorted(maps.Keys(names))) {
			l.Store.Count.RowsLooked.Add(int64(len(chunk)))
			err := l.Store.ReadRows(store.InBackground(ctx), table, store.Rows{Keys: chunk}, store.PendingUpTo(highest, lookVersions), 0, func(row layout.Row) bool {
				rows[RowID{table, row.Key}] = layout.DecodePending(table, row)
				return true
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// clean reports that the rows of an item hold nothing of it, and acts upon what they hold.
func (l *Looker) clean(ctx context.Context, it *Item, rows map[RowID]layout.Pending, found Found) (bool, error) {
	clean := true
	for _, r := range it.Rows {
		p := rows[RowID{r.Table, r.Key}]
		for _, lock := range p.Locks {
			if lock.StartTS != it.StartTS {
				continue
			}
			clean = false
			if _, err := l.Locks.ResolveLock(ctx, lock); err != nil {
				return false, err
			}
		}
		if (r.Observed || r.Weak) && l.owed(ctx, p, it.bound, found) {
			clean = false
		}
	}
	return clean, nil
}

// owed dispatches the notifications of a row at or below bound, and reports whether there are any
// that nobody has parked. Of a column with many of them only the newest are known.
func (l *Looker) owed(ctx context.Context, p layout.Pending, bound tso.Timestamp, found Found) (owed bool) {
	seen := map[model.Cell]int{}
	for _, n := range p.Notified {
		seen[n.Cell]++
		reaches := n.Timestamp <= bound || seen[n.Cell] == lookVersions
		if !reaches || !l.observed(n.Cell) || p.OnlyParked(n) {
			continue
		}
		found(ctx, p, n)
		owed = true
	}
	return owed
}

// observed reports whether the stored schema has observers for the cell.
func (l *Looker) observed(c model.Cell) bool {
	info, ok := l.Meta.Catalog.Load().UserTable(c.Table)
	return ok && (info.IsObserved[c.Column] || info.IsWeak[c.Column])
}
