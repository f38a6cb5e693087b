// Package settle finishes what transactions have left behind, by their entries in the journal: each
// client looks at its own (J4), and a worker adopts the streams of clients that died (J5). It
// stands on journal and locks, beneath engine. It writes to users' tables only to resolve locks,
// and to forget observer states (I19).
package settle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
// was rolled back, is dispatched whenever it is found. That nothing is found counts only once none
// of its requests can be under way any more, and up to a timestamp that was asked for then: one
// request lifetime after the entry was first read (J2).
//
// One entry that cannot be looked at, for instance because a cell of it is corrupt, stays unsettled
// and keeps no other.
//
// Rejected: looking at the rows first. They would show nothing of a transaction that is about to
// prewrite, and the position would pass it.

// Limits of a look.
const (
	lookAtOnce   = 8  // primaries, and locks to resolve
	lookVersions = 64 // notify cells of a column; below that many all are known
)

// Looker looks at the rows of entries. It is safe for concurrent use.
type Looker struct {
	Store    *store.Store
	Clock    *timestamps.Source
	Meta     *meta.Watcher
	Locks    *locks.Resolver
	Dispatch *dispatch.Dispatcher
	Config   model.Settings
	// Forget erases observer states beside no notification (I19).
	Forget func(ctx context.Context, states ...layout.ObserverState) error

	Resolved atomic.Int64 // locks that looks have resolved

	mu     sync.Mutex
	finder []*func() Found
}

// Found hears of a notification that nobody may know of, and of the row that holds it. It reports
// whether it takes the notification up. It may wait until ctx ends.
type Found func(ctx context.Context, row layout.Pending, n model.Notification) (taken bool)

// HandleFound calls begin before each look reads rows, and what it returned for what is found,
// until the caller calls remove. What nobody takes up is hinted at to other processes.
func (l *Looker) HandleFound(begin func() Found) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := &begin
	l.finder = append(l.finder, mine)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.finder = slices.DeleteFunc(slices.Clone(l.finder), func(f *func() Found) bool { return f == mine })
	}
}

// found begins a look.
func (l *Looker) found() Found {
	l.mu.Lock()
	finder := l.finder
	l.mu.Unlock()
	var heard []Found
	for _, begin := range finder {
		heard = append(heard, (*begin)())
	}
	return func(ctx context.Context, row layout.Pending, n model.Notification) (taken bool) {
		for _, f := range heard {
			taken = f(ctx, row, n) || taken
		}
		if !taken {
			l.Dispatch.Left(n)
		}
		return taken
	}
}

// Item is an entry that is to be looked at.
type Item struct {
	journal.Entry
	Session  string        // of its owner; "": unknown
	Alive    bool          // its owner may still be about to prewrite, however old the transaction is
	Read     time.Time     // when the looker first read it, by the monotonic clock
	CommitTS tso.Timestamp // known to have committed then; 0: not known

	// What the look found; 0: nothing.
	Notified tso.Timestamp // the earliest notification that nobody has dealt with
	Expired  tso.Timestamp // the earliest end of the time to live of a lock that it could not resolve

	decided bool          // its rows may be looked at
	early   bool          // it may still notify: that nothing is found proves nothing
	bound   tso.Timestamp // of the notifications that it may have written; 0: none
}

// Look reports which items are settled. An error concerns some of the others: these are for later.
func (l *Looker) Look(ctx context.Context, items []*Item) (settled []bool, err error) {
	settled, asked := make([]bool, len(items)), time.Now()
	l.Store.Count.Looks.Add(1)
	if err := l.Meta.CheckRepairing(ctx); err != nil {
		return settled, err
	}
	now, err := l.Clock.Next(ctx)
	if err != nil {
		return settled, err
	}
	known, err := l.knownTables(ctx, items)
	if err != nil {
		return settled, err
	}
	failed := l.decideAll(ctx, items, asked, now, known)
	found := l.found()
	rows, err := l.readRows(ctx, items, known)
	failed = errors.Join(failed, err)
	if err := l.learnColumns(ctx, rows); err != nil {
		return settled, err
	}
	l.forget(ctx, rows, highest(items))
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(lookAtOnce)
	for i, it := range items {
		if !it.decided {
			continue
		}
		g.Go(func() error {
			clean, err := l.clean(ctx, it, rows, found)
			mu.Lock()
			defer mu.Unlock()
			settled[i] = clean && !it.early && err == nil
			failed = errors.Join(failed, err)
			return nil
		})
	}
	_ = g.Wait()
	return settled, failed
}

// knownTables is which of the tables that items name the stored schema has. It reads the schema
// again before it says no: the table may be new.
func (l *Looker) knownTables(ctx context.Context, items []*Item) (map[string]bool, error) {
	known := map[string]bool{}
	fresh := false
	for _, it := range items {
		for _, name := range append([]string{it.Primary.Table}, tablesOf(it.Rows)...) {
			if _, asked := known[name]; asked {
				continue
			}
			_, there := l.Meta.Catalog.Load().Tables[name]
			if !there && name != "" && !fresh {
				if _, err := l.Meta.Refresh(ctx); err != nil {
					return nil, err
				}
				fresh = true
				_, there = l.Meta.Catalog.Load().Tables[name]
			}
			known[name] = there
		}
	}
	return known, nil
}

func tablesOf(rows []journal.Row) (names []string) {
	for _, r := range rows {
		if len(names) == 0 || names[len(names)-1] != r.Table {
			names = append(names, r.Table)
		}
	}
	return names
}

// decideAll decides the transactions of items, and how far their notifications reach.
func (l *Looker) decideAll(ctx context.Context, items []*Item, asked time.Time, now tso.Timestamp, known map[string]bool) (failed error) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(lookAtOnce)
	for _, it := range items {
		over := asked.Sub(it.Read) >= l.Store.Timing.RequestLifetime // none of its requests was under way
		g.Go(func() error {
			err := l.decide(ctx, it, over, now, known)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			return nil
		})
	}
	_ = g.Wait()
	return failed
}

func (l *Looker) decide(ctx context.Context, it *Item, over bool, now tso.Timestamp, known map[string]bool) error {
	if it.Primary == (model.Cell{}) || !known[it.Primary.Table] {
		it.decided, it.early, it.bound = true, !over, now
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
		it.decided = true
		if it.notifiesWeakly() {
			it.early, it.bound = !over, now
		}
	case locks.TxnUnknown: // at or below the watermark: its record may have been collected
		it.decided, it.early, it.bound = true, !over, now
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
		if it.Alive || now <= it.StartTS.Add(l.Config.LockTTL) && !l.Locks.SessionEnded(ctx, it.Session) {
			return locks.TxnStatus{State: locks.TxnLocked}, nil
		}
		if _, err := l.Locks.RollBackPrimary(ctx, it.Primary, it.StartTS, nil); err != nil {
			return s, err
		}
	}
}

// highest is up to which timestamp any item may have notified.
func highest(items []*Item) (ts tso.Timestamp) {
	for _, it := range items {
		ts = max(ts, it.bound)
	}
	return ts
}

// readRows reads locks and notifications of all rows of the items that are decided. A table that
// cannot be read leaves those that name it for later.
func (l *Looker) readRows(ctx context.Context, items []*Item, known map[string]bool) (rows map[RowID]layout.Pending, failed error) {
	keys := map[string]map[string]bool{}
	for _, it := range items {
		if !it.decided {
			continue
		}
		for _, r := range it.Rows {
			if !known[r.Table] {
				continue // the schema has lost it, with everything in it
			}
			if keys[r.Table] == nil {
				keys[r.Table] = map[string]bool{}
			}
			keys[r.Table][r.Key] = true
		}
	}
	rows = map[RowID]layout.Pending{}
	upTo := highest(items)
	for table, names := range keys {
		for chunk := range store.KeyChunks(slices.Sorted(maps.Keys(names))) {
			l.Store.Count.RowsLooked.Add(int64(len(chunk)))
			err := l.Store.ReadRows(store.InBackground(ctx), table, store.Rows{Keys: chunk}, store.PendingUpTo(upTo, lookVersions), 0, func(row layout.Row) bool {
				p := layout.DecodePending(table, row)
				rows[RowID{table, row.Key}] = p
				l.Store.Count.Undecodable.Add(int64(len(p.Corrupt)))
				return true
			})
			if err != nil {
				failed = errors.Join(failed, err)
				for _, it := range items {
					it.decided = it.decided && !slices.Contains(tablesOf(it.Rows), table)
				}
				break
			}
		}
	}
	return rows, failed
}

// forget erases the observer states beside which no notification stands, at or below theirs: their
// cells were handled after all (I19). Of the rows the notifications up to upTo were read.
func (l *Looker) forget(ctx context.Context, rows map[RowID]layout.Pending, upTo tso.Timestamp) {
	var over []layout.ObserverState
	for _, p := range rows {
		for _, s := range p.States {
			if s.Through <= upTo && l.observed(s.Cell) && !p.Notifies(s.Cell, s.Through, lookVersions) {
				over = append(over, s)
			}
		}
	}
	if l.Forget == nil || len(over) == 0 {
		return
	}
	if err := l.Forget(ctx, over...); err != nil {
		l.Config.Logger.Debug("journal: observer states were not erased", "err", err)
	}
}

// clean reports that the rows of an item hold nothing of it, and acts upon what they hold.
func (l *Looker) clean(ctx context.Context, it *Item, rows map[RowID]layout.Pending, found Found) (clean bool, failed error) {
	clean = true
	for _, r := range it.Rows {
		p := rows[RowID{r.Table, r.Key}]
		for _, lock := range p.Locks {
			if lock.StartTS != it.StartTS {
				continue
			}
			clean = false
			r, err := l.Locks.ResolveLock(ctx, lock)
			if failed = errors.Join(failed, err); err == nil && r != model.LockAlive {
				l.Resolved.Add(1)
			} else {
				it.Expired = earliest(it.Expired, lock.Placed.Add(lock.TTL))
			}
		}
		if (r.Observed || r.Weak) && l.owed(ctx, p, it, found) {
			clean = false
		}
	}
	return clean, failed
}

// earliest is the lesser of two timestamps of which 0 stands for none.
func earliest(a, b tso.Timestamp) tso.Timestamp {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// owed dispatches the notifications of a row that an item may have written, and reports whether
// there are any that nobody has parked. Of a column with many of them only the newest are known.
func (l *Looker) owed(ctx context.Context, p layout.Pending, it *Item, found Found) (owed bool) {
	seen := map[model.Cell]int{}
	for _, n := range p.Notified {
		seen[n.Cell]++
		reaches := n.Timestamp <= it.bound || seen[n.Cell] == lookVersions
		if !reaches || !l.observed(n.Cell) || p.OnlyParked(n) {
			continue
		}
		it.Notified = earliest(it.Notified, n.Timestamp)
		found(ctx, p, n)
		owed = true
	}
	return owed
}

// learnColumns reads the schema again if one of rows, which were read before, is notified in a
// column that is not known to be observed: it may have become so.
func (l *Looker) learnColumns(ctx context.Context, rows map[RowID]layout.Pending) error {
	for _, p := range rows {
		if slices.ContainsFunc(p.Notified, func(n model.Notification) bool { return !l.observed(n.Cell) }) {
			_, err := l.Meta.Refresh(ctx)
			return err
		}
	}
	return nil
}

// observed reports whether the stored schema has observers for the cell.
func (l *Looker) observed(c model.Cell) bool {
	info, ok := l.Meta.Catalog.Load().UserTable(c.Table)
	return ok && (info.IsObserved[c.Column] || info.IsWeak[c.Column])
}
