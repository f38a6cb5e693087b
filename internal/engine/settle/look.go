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
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
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
// of its requests can be in flight any more, and up to a timestamp that was requested then: one
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
	lookVersions = 64 // notify cells of a column; below that many all are read

	// lookTimeout bounds a look, whose finds may wait for room in the queue of a worker.
	lookTimeout = 30 * time.Second
	// lookTenths is into how many intervals that is divided. A row may take one of them for each of
	// the steps: where it does not answer, the others have the rest.
	lookTenths = 10
)

// Looker looks at the rows of entries. It is safe for concurrent use.
type Looker struct {
	Store    *store.Store
	Clock    *timestamps.Source
	Meta     *meta.Watcher
	Locks    *locks.Resolver
	Dispatch *dispatch.Dispatcher
	Config   store.Settings
	// Forget erases observer states beside no notification (I19).
	Forget func(ctx context.Context, states ...model.ObserverState) error

	// Timeout bounds a look, in nanoseconds; 0: 30 s.
	Timeout atomic.Int64

	Resolved atomic.Int64 // locks that looks have resolved

	mu      sync.Mutex
	finders []*finder
}

// Look reports what it found of each item. An error concerns some of those that are not settled:
// these are for later.
func (l *Looker) Look(ctx context.Context, items []Item) ([]Result, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	checks, asked := newChecks(items), time.Now()
	err := l.run(ctx, checks, asked)
	return ordered.Map(checks, func(c *check) Result { return c.result }), err
}

// run takes checks through the steps.
func (l *Looker) run(ctx context.Context, checks []*check, asked time.Time) error {
	l.Store.Count.Looks.Add(1)
	if _, err := l.Meta.CheckRepairing(ctx); err != nil {
		return err
	}
	now, err := l.Clock.Next(ctx)
	if err != nil {
		return err
	}
	tables, err := l.storedTables(ctx, checks)
	if err != nil {
		return err
	}
	failed := l.decideAll(ctx, checks, asked, now, tables)
	found := l.found(now)
	rows, err := l.readRows(ctx, checks, tables)
	failed = errors.Join(failed, err)
	if err := l.learnColumns(ctx, rows); err != nil {
		return err
	}
	l.forget(ctx, rows, highest(checks))
	failed = errors.Join(failed, l.resolveAll(ctx, checks, rows))
	_ = several(checks, func(c *check) error {
		if c.state != undecided && l.dispatched(ctx, c, rows, found) {
			c.leave(notified)
		}
		return nil
	})
	for _, c := range checks {
		c.result.Settled = c.state == bare
		c.result.Unlocked = c.state == bare || c.state == notified
	}
	return failed
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

// leaving ends so many tenths before ctx does, which is that of a look.
func (l *Looker) leaving(ctx context.Context, tenths time.Duration) (context.Context, context.CancelFunc) {
	until, _ := ctx.Deadline()
	return context.WithDeadline(ctx, until.Add(-tenths*l.tenth()))
}

func (l *Looker) timeout() time.Duration { return cmp.Or(time.Duration(l.Timeout.Load()), lookTimeout) }

func (l *Looker) tenth() time.Duration { return l.timeout() / lookTenths }

// storedTables is which of the tables that the entries name the stored schema has. It reads the
// schema again before it says no: the table may be new.
func (l *Looker) storedTables(ctx context.Context, checks []*check) (map[string]bool, error) {
	stored := map[string]bool{}
	current := false
	for _, c := range checks {
		for _, name := range append([]string{c.Primary.Table}, tablesOf(c.Rows)...) {
			if _, asked := stored[name]; asked {
				continue
			}
			_, there := l.Meta.Catalog.Load().Tables[name]
			if !there && name != "" && !current {
				if _, err := l.Meta.Refresh(ctx); err != nil {
					return nil, err
				}
				current = true
				_, there = l.Meta.Catalog.Load().Tables[name]
			}
			stored[name] = there
		}
	}
	return stored, nil
}

func tablesOf(rows []model.JournalName) []string {
	return slices.Compact(ordered.Map(rows, func(r model.JournalName) string { return r.Table }))
}

// decideAll decides the transactions, and up to where their notifications reach.
func (l *Looker) decideAll(ctx context.Context, checks []*check, asked time.Time, now tso.Timestamp, tables map[string]bool) (failed error) {
	ctx, cancel := l.leaving(ctx, 5)
	defer cancel()
	return several(checks, func(c *check) error {
		ctx, cancel := context.WithTimeout(ctx, l.tenth())
		defer cancel()
		// After a lifetime none of its requests is in flight.
		quiet := asked.Sub(c.Read) >= l.Store.Timing.RequestLifetime
		return l.decide(ctx, c, quiet, now, tables)
	})
}

// decide decides the transaction of an entry; quiet: none of its requests is in flight.
func (l *Looker) decide(ctx context.Context, c *check, quiet bool, now tso.Timestamp, tables map[string]bool) error {
	if c.Primary == (model.Cell{}) || !tables[c.Primary.Table] {
		c.decided(now, quiet)
		return nil
	}
	status, err := l.Status(ctx, c.Item, now)
	if err != nil {
		return err
	}
	switch status.State {
	case locks.TxnCommitted:
		c.decided(status.CommitTS, !c.InPhaseTwo)
	case locks.TxnRolledBack:
		if c.notifiesWeakly() {
			c.decided(now, quiet)
		} else {
			c.decided(0, true)
		}
	case locks.TxnUnknown: // at or below the watermark: its record may have been collected
		c.decided(now, quiet)
	}
	return nil
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
		if it.Owner != OwnerUnknown || !layout.Unplaced(it.StartTS, l.Config.LockTTL, it.Session).Dead(now, hasEnded) {
			return locks.TxnStatus{State: locks.TxnLocked}, nil
		}
		if _, err := l.Locks.RollBackPrimary(ctx, it.Primary, it.StartTS); err != nil {
			return s, err
		}
	}
}

// resolveAll resolves the locks that entries lead to.
func (l *Looker) resolveAll(ctx context.Context, checks []*check, rows map[layout.RowID]model.Pending) (failed error) {
	type held struct {
		model.Lock
		by *check
	}
	var all []held
	for _, c := range checks {
		for i := 0; c.state != undecided && i < len(c.Rows); i++ {
			for _, lock := range rows[layout.RowID{Table: c.Rows[i].Table, Key: c.Rows[i].Key}].Locks {
				if c.leadsTo(lock, c.Rows[i].Weak) {
					c.leave(locked)
					all = append(all, held{lock, c})
				}
			}
		}
	}
	ctx, cancel := l.leaving(ctx, 1)
	defer cancel()
	var mu sync.Mutex // of the results
	return several(all, func(lock held) error {
		ctx, cancel := context.WithTimeout(ctx, l.tenth())
		defer cancel()
		r, err := l.Locks.ResolveLock(ctx, lock.Lock)
		mu.Lock()
		defer mu.Unlock()
		if found := &lock.by.result; err == nil && r != model.LockAlive {
			l.Resolved.Add(1)
			found.Progress = true
		} else {
			found.Expired = journal.Earliest(found.Expired, lock.AliveUntil())
		}
		return err
	})
}

// dispatched dispatches the notifications of an entry that its rows hold, and reports whether there
// are any.
func (l *Looker) dispatched(ctx context.Context, c *check, rows map[layout.RowID]model.Pending, found heard) (held bool) {
	for _, r := range c.Rows {
		if (r.Observed || r.Weak) && l.dispatchRow(ctx, rows[layout.RowID{Table: r.Table, Key: r.Key}], c, found) {
			held = true
		}
	}
	return held
}

// dispatchRow dispatches the notifications of a row that an entry's transaction may have written,
// and reports whether there are any that are not parked. Of a column with many of them only the
// newest are read.
func (l *Looker) dispatchRow(ctx context.Context, p model.Pending, c *check, found heard) (held bool) {
	seen := map[model.Cell]int{}
	for _, n := range p.Notified {
		seen[n.Cell]++
		reaches := n.Timestamp <= c.bound || seen[n.Cell] == lookVersions
		if !reaches || !l.observed(n.Cell) || p.OnlyParked(n) {
			continue
		}
		found(ctx, p, n, c)
		held = true
	}
	return held
}
