// Package settle finishes what transactions have left behind, by their entries in the journal: each
// client looks at its own (J4), and a worker adopts the streams of clients that died (J5). It
// stands on journal and locks, beneath engine. It writes to users' tables only to resolve locks,
// and to forget observer states (I19).
package settle

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
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
// One entry that cannot be looked at, for instance because a cell of it is corrupt or a row does
// not answer, stays unsettled and keeps no other.
//
// Rejected: looking at the rows first. They would show nothing of a transaction that is about to
// prewrite, and the position would pass it.

// Limits of a look.
const (
	lookAtOnce   = 8  // primaries, and locks to resolve
	lookVersions = 64 // notify cells of a column; below that many all are known

	// lookTimeout bounds a look, whose finds may wait for room in the queue of a worker.
	lookTimeout = 30 * time.Second
	// lookParts is what part of that one row may take for each of the steps: where it does not
	// answer, the others have the rest.
	lookParts = 10
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

	// Timeout bounds a look, in nanoseconds; 0: 30 s.
	Timeout atomic.Int64

	Resolved atomic.Int64 // locks that looks have resolved

	mu      sync.Mutex
	finders []*finder
}

// Item is an entry that is to be looked at.
type Item struct {
	journal.Entry
	Session  string        // of its owner; "": unknown
	Own      bool          // of this client
	Alive    bool          // its owner may still prewrite, whatever its age
	Read     time.Time     // when the looker first read it, by the monotonic clock
	CommitTS tso.Timestamp // known to have committed then; 0: not known
	UnderWay bool          // phase two of this client, which may write notifications

	// What the look found; 0: nothing.
	Notified tso.Timestamp // the earliest unprocessed notification
	Taken    tso.Timestamp // the earliest one that a worker of this client takes
	Expired  tso.Timestamp // earliest end of an unresolved lock's time to live
	Progress bool          // it has resolved locks

	decided bool          // its rows may be looked at
	unread  bool          // not all of them could be read
	fenced  bool          // one is in a table into which an import is unfinished
	locked  bool          // they held locks of it
	owing   bool          // they hold notifications of it
	early   bool          // it may still notify: that nothing is found proves nothing
	bound   tso.Timestamp // of the notifications that it may have written; 0: none
}

// Look reports which items are settled. An error concerns some of the others: these are for later.
func (l *Looker) Look(ctx context.Context, items []*Item) (settled []bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	settled, asked := make([]bool, len(items)), time.Now()
	l.Store.Count.Looks.Add(1)
	if _, err := l.Meta.CheckRepairing(ctx); err != nil {
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
	found := l.found(now)
	rows, err := l.readRows(ctx, items, known)
	failed = errors.Join(failed, err)
	if err := l.learnColumns(ctx, rows); err != nil {
		return settled, err
	}
	l.forget(ctx, rows, highest(items))
	failed = errors.Join(failed, l.resolveAll(ctx, items, rows))
	_ = several(items, func(it *Item) error {
		it.owing = it.decided && l.owing(ctx, it, rows, found)
		return nil
	})
	for i, it := range items {
		settled[i] = it.decided && !it.early && !it.unread && !it.fenced && !it.locked && !it.owing
	}
	return settled, failed
}

// several does work for each of list, some at once. The order is none, so that those which take
// all the time there is are not always before the same others.
func several[T any](list []T, work func(T) error) (failed error) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(lookAtOnce)
	for _, i := range rand.Perm(len(list)) {
		g.Go(func() error {
			if err := work(list[i]); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
			return nil
		})
	}
	_ = g.Wait()
	return failed
}

// leaving ends so many parts before ctx does, which is that of a look.
func (l *Looker) leaving(ctx context.Context, parts time.Duration) (context.Context, context.CancelFunc) {
	until, _ := ctx.Deadline()
	return context.WithDeadline(ctx, until.Add(-parts*l.part()))
}

func (l *Looker) timeout() time.Duration { return cmp.Or(time.Duration(l.Timeout.Load()), lookTimeout) }

func (l *Looker) part() time.Duration { return l.timeout() / lookParts }

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
	ctx, cancel := l.leaving(ctx, 5)
	defer cancel()
	return several(items, func(it *Item) error {
		ctx, cancel := context.WithTimeout(ctx, l.part())
		defer cancel()
		// After a lifetime none of its requests is under way.
		over := asked.Sub(it.Read) >= l.Store.Timing.RequestLifetime
		return l.decide(ctx, it, over, now, known)
	})
}

func (l *Looker) decide(ctx context.Context, it *Item, over bool, now tso.Timestamp, known map[string]bool) error {
	if it.Primary == (model.Cell{}) || !known[it.Primary.Table] {
		it.decided, it.early, it.bound = true, !over, now
		return nil
	}
	status, err := l.Status(ctx, it, now)
	if err != nil {
		return err
	}
	switch status.State {
	case locks.TxnCommitted:
		it.decided, it.early, it.bound = true, it.UnderWay, status.CommitTS
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

// Status reads what became of the transaction of an item, and rolls it back if its owner is dead.
// It is final, but for TxnLocked, of a transaction that is alive, and TxnUnknown, of one that may
// have been collected.
func (l *Looker) Status(ctx context.Context, it *Item, now tso.Timestamp) (locks.TxnStatus, error) {
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
		hasEnded := func(session string) bool { return l.Locks.SessionEnded(ctx, session) }
		if it.Alive || !layout.Unplaced(it.StartTS, l.Config.LockTTL, it.Session).Dead(now, hasEnded) {
			return locks.TxnStatus{State: locks.TxnLocked}, nil
		}
		if _, err := l.Locks.RollBackPrimary(ctx, it.Primary, it.StartTS); err != nil {
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

// resolveAll resolves the locks of items that their rows hold.
func (l *Looker) resolveAll(ctx context.Context, items []*Item, rows map[RowID]layout.Pending) (failed error) {
	type held struct {
		layout.Lock
		of *Item
	}
	var all []held
	for _, it := range items {
		for i := 0; it.decided && i < len(it.Rows); i++ {
			for _, lock := range rows[RowID{it.Rows[i].Table, it.Rows[i].Key}].Locks {
				if lock.StartTS == it.StartTS {
					it.locked, all = true, append(all, held{lock, it})
				}
			}
		}
	}
	ctx, cancel := l.leaving(ctx, 1)
	defer cancel()
	var mu sync.Mutex // of the items
	return several(all, func(lock held) error {
		ctx, cancel := context.WithTimeout(ctx, l.part())
		defer cancel()
		r, err := l.Locks.ResolveLock(ctx, lock.Lock)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && r != model.LockAlive {
			l.Resolved.Add(1)
			lock.of.Progress = true
		} else {
			lock.of.Expired = earliest(lock.of.Expired, lock.AliveUntil())
		}
		return err
	})
}

// owing reports whether the rows of an item hold notifications of it, and dispatches them.
func (l *Looker) owing(ctx context.Context, it *Item, rows map[RowID]layout.Pending, found heard) (owing bool) {
	for _, r := range it.Rows {
		if (r.Observed || r.Weak) && l.owed(ctx, rows[RowID{r.Table, r.Key}], it, found) {
			owing = true
		}
	}
	return owing
}

// earliest is the lesser of two timestamps of which 0 stands for none.
func earliest(a, b tso.Timestamp) tso.Timestamp {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// owed dispatches the notifications of a row that an item may have written, and reports whether
// there are any that are not parked. Of a column with many of them only the newest are known.
func (l *Looker) owed(ctx context.Context, p layout.Pending, it *Item, found heard) (owed bool) {
	seen := map[model.Cell]int{}
	for _, n := range p.Notified {
		seen[n.Cell]++
		reaches := n.Timestamp <= it.bound || seen[n.Cell] == lookVersions
		if !reaches || !l.observed(n.Cell) || p.OnlyParked(n) {
			continue
		}
		found(ctx, p, n, it)
		owed = true
	}
	return owed
}
