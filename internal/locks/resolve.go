package locks

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gopercolator/percolator/internal/dispatch"
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/internal/timestamps"
	"github.com/gopercolator/percolator/tso"
)

// A transaction that dies leaves locks behind, and whoever meets them cleans up (section 2.2 of the
// paper). The primary cell decides, and only one CheckAndMutateRow on it can win:
//
//	resolve(cell, lock of transaction s):
//	  read the primary
//	  record of s there       → committed: roll this cell forward, at once
//	  rollback marker of s    → roll this cell back
//	  lock of s, or nothing   → alive as long as time placed + TTL lies in the oracle's future and the session of its owner lasts; else
//	                            write the rollback marker on the primary unless a record of s has appeared (I8),
//	                            and decide again
//
// This cell is changed only on the condition that it still holds the lock (I9): between seeing the
// lock and the verdict the transaction may have committed here and the primary's record been
// collected, and an unconditional erase would then destroy committed data. Everything matches on
// the exact start timestamp.
//
// That one judge believes a lock dead earlier than another costs performance only; it never costs
// an answer, because every roll back passes the primary.

// Resolver finds out what became of transactions and settles their locks.
type Resolver struct {
	Store    *store.Store
	Clock    *timestamps.Source
	Meta     *meta.Watcher
	Dispatch *dispatch.Dispatcher
	Config   model.Settings

	Decided  *lru.Cache[TxnID, TxnStatus] // of transactions that are decided for good
	Sessions *liveness
	Own      ownCommits
}

// ResolveLock settles a lock that ScanPending returned if it can be settled now; it never waits for
// its owner. The lock may have been resolved, and even collected, since it was found: what counts
// is what the cell holds. Errors: ErrCorrupt for a lock that contradicts the protocol, and those of
// the store.
func (c *Resolver) ResolveLock(ctx context.Context, l model.Lock) (model.Resolution, error) {
	if !c.Meta.KnowsTable(ctx, l.Cell.Table) {
		return model.LockAlive, model.UnknownTable(l.Cell.Table)
	}
	if l.StartTS <= 0 {
		return model.LockAlive, model.CellError(model.ErrInvalidArgument, l.Cell, "a lock of transaction %d, which no transaction is", l.StartTS)
	}
	rv, err := c.Store.ReadVersions(ctx, l.Cell.Table, l.Cell.Row, store.HeldLock(l.Cell.Column, l.StartTS))
	if err != nil {
		return model.LockAlive, err
	}
	v := rv[l.Cell.Column]
	switch {
	case v == nil:
		return model.LockGone, nil
	case v.Corrupt != nil:
		return model.LockAlive, v.Corrupt
	}
	s, err := c.Resolve(ctx, l.Cell, v.Locks[0], true)
	return s.Resolution, err
}

// settlement is how a lock was settled.
type settlement struct {
	Resolution model.Resolution
	CommitTS   tso.Timestamp // with LockRolledForward
}

// Resolve settles the lock l on cell, without waiting. fresh: the lock has just been read, so that
// on its own primary there is no need to look again whether it is there; who asks again and again
// about a lock that was read once is not fresh.
func (c *Resolver) Resolve(ctx context.Context, cell model.Cell, l layout.LockRecord, fresh bool) (settlement, error) {
	if !c.Meta.KnowsTable(ctx, l.Primary.Table) {
		return settlement{}, model.CellError(model.ErrCorrupt, cell, "the lock of transaction %d names a primary in table %q, which is not in the schema", l.StartTS, l.Primary.Table)
	}
	id := TxnID{l.Primary, l.StartTS}
	var suspect layout.LockRecord // seems dead, as far as it was seen
	for ; ; fresh = false {
		d, known := c.Decided.Get(id)
		seen := !known && fresh && cell == l.Primary // should it be gone, I8 says so
		switch {
		case seen:
			d = TxnStatus{State: TxnLocked, Lock: l}
		case !known:
			var err error
			if d, err = c.Status(ctx, l.Primary, l.StartTS); err != nil {
				return settlement{}, err
			}
		}
		if d.final() {
			c.Decided.Add(id, d)
		}
		switch d.State {
		case TxnCommitted:
			return c.rollForward(ctx, cell, l, d.CommitTS)
		case TxnRolledBack:
			return c.rollBackCell(ctx, cell, l.StartTS)
		}
		judged := l // an empty primary is normal while prewrites are in flight
		if d.State == TxnLocked {
			judged = d.Lock // only the primary is refreshed
		}
		if judged != suspect {
			dead, err := c.isDead(ctx, judged)
			if err != nil || !dead {
				return settlement{Resolution: model.LockAlive}, err
			}
		}
		if seen { // some time may have passed since, and the owner may have refreshed it
			suspect = judged
			continue
		}
		matched, err := c.RollBackPrimary(ctx, l.Primary, l.StartTS, nil)
		if err != nil {
			return settlement{}, err
		}
		if matched {
			continue // it was committed, or somebody else was faster: read which
		}
		c.Decided.Add(id, TxnStatus{State: TxnRolledBack})
		if cell == l.Primary {
			c.Store.Count.RolledBack.Add(1)
			c.Store.Trace.Current(ctx).Event("percolator.lock.resolved", cell.Table, "rolled_back")
			return settlement{Resolution: model.LockRolledBack}, nil
		}
		return c.rollBackCell(ctx, cell, l.StartTS)
	}
}

// isDead asks the oracle for the time, as no two machines' clocks are compared, and then for the
// session of the lock's owner.
func (c *Resolver) isDead(ctx context.Context, l layout.LockRecord) (bool, error) {
	now, err := c.Clock.Next(ctx)
	if err != nil {
		return false, err
	}
	return now > l.Placed.Add(l.TTL) || c.Sessions.hasEnded(ctx, l.Session), nil
}

// RollBackPrimary makes it impossible for StartTS to commit, unless it has already been decided:
// matched says that a record or marker was there. siblings are further columns of the primary's row
// that the transaction locked. An unknown outcome is sent again: the predicate makes it idempotent.
func (c *Resolver) RollBackPrimary(ctx context.Context, primary model.Cell, startTS tso.Timestamp, siblings []string) (matched bool, err error) {
	mut := store.NewMutation(2)
	for _, col := range append([]string{primary.Column}, siblings...) {
		mut.Erase(layout.LockFamily, col, startTS)
		mut.Erase(layout.DataFamily, col, startTS)
	}
	mut.Put(layout.WriteFamily, primary.Column, startTS, layout.EncodeWrite(startTS, layout.KindRollback))
	return c.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return c.Store.CheckAndMutate(ctx, primary.Table, primary.Row, store.Record(primary.Column, startTS), nil, mut)
	})
}

// rollForward does for one cell what phase two of its transaction would have done, the notification
// included (I10).
func (c *Resolver) rollForward(ctx context.Context, cell model.Cell, l layout.LockRecord, commitTS tso.Timestamp) (settlement, error) {
	mut := store.NewMutation(2)
	mut.Commit(cell.Column, l.Kind, l.StartTS, commitTS, l.Observed)
	held, err := c.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return c.Store.CheckAndMutate(ctx, cell.Table, cell.Row, store.HeldLock(cell.Column, l.StartTS), mut, nil)
	})
	if err != nil {
		return settlement{}, err
	}
	if !held {
		return settlement{Resolution: model.LockGone, CommitTS: commitTS}, nil
	}
	c.Store.Count.RolledForward.Add(1)
	c.Store.Trace.Current(ctx).Event("percolator.lock.resolved", cell.Table, "rolled_forward")
	if l.Observed {
		c.Dispatch.Notified(model.Notification{Cell: cell, Timestamp: commitTS})
	}
	return settlement{model.LockRolledForward, commitTS}, nil
}

// rollBackCell erases the lock and the data of a transaction that the primary says will never
// commit (I9).
func (c *Resolver) rollBackCell(ctx context.Context, cell model.Cell, startTS tso.Timestamp) (settlement, error) {
	mut := store.NewMutation(2)
	mut.Erase(layout.LockFamily, cell.Column, startTS)
	mut.Erase(layout.DataFamily, cell.Column, startTS)
	held, err := c.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return c.Store.CheckAndMutate(ctx, cell.Table, cell.Row, store.HeldLock(cell.Column, startTS), mut, nil)
	})
	if err != nil {
		return settlement{}, err
	}
	if !held {
		return settlement{Resolution: model.LockGone}, nil
	}
	c.Store.Count.RolledBack.Add(1)
	c.Store.Trace.Current(ctx).Event("percolator.lock.resolved", cell.Table, "rolled_back")
	return settlement{Resolution: model.LockRolledBack}, nil
}
