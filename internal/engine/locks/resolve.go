// Package locks finds out what became of a transaction whose lock is in the way, and resolves the
// lock. It sits on meta and store, beneath reads and commit; the primary cell alone decides.
package locks

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/tso"
)

// A transaction that dies leaves locks behind, and the next transaction that meets them cleans up
// (section 2.2 of the paper). The primary cell decides, and only one CheckAndMutateRow on it can
// win:
//
//	resolve(cell, lock of transaction s):
//	  read the primary
//	  record of s there       → committed: roll this cell forward, at once
//	  rollback marker of s    → roll this cell back
//	  lock of s, or nothing   → alive until the oracle passes time placed + TTL, or the owner's
//	                            session ends; then write the rollback marker on the primary
//	                            unless a record of s has appeared (I8), and decide again
//
// Resolve changes this cell only on the condition that it still holds the lock (I9): between the
// look at the lock and the verdict the transaction may have committed here and the collector have
// removed the primary's record. An unconditional erase would then destroy committed data.
// Everything matches on the exact start timestamp.
//
// A client that judges a lock dead earlier than another costs performance, never an answer, because
// every roll back passes the primary.

// Resolver finds out what became of transactions and resolves their locks. It is safe for
// concurrent use.
type Resolver struct {
	Store    *store.Store
	Clock    *timestamps.Source
	Meta     *meta.Watcher
	Dispatch *dispatch.Dispatcher
	Config   model.Settings

	Decided  *lru.Cache[TxnID, TxnStatus] // final statuses
	Sessions *liveness                    // which lock owners live
	Own      ownCommits                   // commits of this client
}

// ResolveLock resolves a lock that ScanPending returned if that needs no waiting for its owner. The
// lock may have been resolved, and even collected, since the scan: what counts is what the cell
// holds. Errors: ErrCorrupt for a lock that contradicts the protocol, and the errors of the store.
func (r *Resolver) ResolveLock(ctx context.Context, l layout.Lock) (model.Resolution, error) {
	if !r.Meta.KnowsTable(ctx, l.Cell.Table) {
		return model.LockAlive, r.Meta.Catalog.Load().UnknownTable(l.Cell.Table)
	}
	if l.StartTS <= 0 {
		return model.LockAlive, model.CellError(model.ErrInvalidArgument, l.Cell, "a lock of transaction %d, which no transaction is", l.StartTS)
	}
	rv, err := r.Store.ReadVersions(ctx, l.Cell.Table, l.Cell.Row, store.HeldLock(l.Cell.Column, l.StartTS))
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
	s, err := r.Resolve(ctx, l.Cell, v.Locks[0], true)
	return s.Resolution, err
}

// resolved is how a lock was resolved.
type resolved struct {
	Resolution model.Resolution
	CommitTS   tso.Timestamp // with LockRolledForward
}

// Resolve resolves the lock l on cell, without waiting. fresh: the caller has just read the lock,
// so on its own primary there is no need to look again whether it is there. A caller that asks
// again about a lock that it read once is not fresh.
func (r *Resolver) Resolve(ctx context.Context, cell model.Cell, l layout.LockRecord, fresh bool) (resolved, error) {
	// A repair decides by its own rules. One may begin before the requests that change something.
	if _, err := r.Meta.CheckRepairing(ctx); err != nil {
		return resolved{}, err
	}
	if !r.Meta.KnowsTable(ctx, l.Primary.Table) {
		if r.Meta.WasDropped(l.Primary.Table, l.StartTS) {
			return r.rollBackCell(ctx, cell, l.StartTS) // I26
		}
		return resolved{}, model.CellError(model.ErrCorrupt, cell, "the lock of transaction %d names a primary in table %q, which is not in the schema", l.StartTS, l.Primary.Table)
	}
	id := TxnID{l.Primary, l.StartTS}
	var suspect layout.LockRecord // seemed dead when last seen
	for ; ; fresh = false {
		d, known := r.Decided.Get(id)
		seen := !known && fresh && cell == l.Primary // if it is gone by now, I8 says so
		switch {
		case seen:
			d = TxnStatus{State: TxnLocked, Lock: l}
		case !known:
			var err error
			if d, err = r.Status(ctx, l.Primary, l.StartTS); err != nil {
				return resolved{}, err
			}
		}
		if d.final() {
			r.Decided.Add(id, d)
		}
		switch d.State {
		case TxnCommitted:
			return r.rollForward(ctx, cell, l, d.CommitTS)
		case TxnRolledBack:
			return r.rollBackCell(ctx, cell, l.StartTS)
		}
		judged := l // an empty primary is normal while prewrites are in flight
		if d.State == TxnLocked {
			judged = d.Lock // only the primary is refreshed
		}
		if judged != suspect {
			dead, err := r.isDead(ctx, judged)
			if err != nil || !dead {
				return resolved{Resolution: model.LockAlive}, err
			}
		}
		if seen { // look again: the owner may have refreshed it since
			suspect = judged
			continue
		}
		matched, err := r.RollBackPrimary(ctx, l.Primary, l.StartTS)
		if err != nil {
			return resolved{}, err
		}
		if matched {
			continue // it committed, or another client was faster: read which
		}
		r.Decided.Add(id, TxnStatus{State: TxnRolledBack})
		if cell == l.Primary {
			return r.rolledBack(ctx, cell), nil
		}
		return r.rollBackCell(ctx, cell, l.StartTS)
	}
}

// ResolveDrained resolves a lock of a transaction that can no longer commit, since none of its
// requests can be under way: it waits for no owner (J6).
func (r *Resolver) ResolveDrained(ctx context.Context, cell model.Cell, l layout.LockRecord) error {
	if !r.Meta.KnowsTable(ctx, l.Primary.Table) {
		if r.Meta.WasDropped(l.Primary.Table, l.StartTS) {
			_, err := r.rollBackCell(ctx, cell, l.StartTS) // I26
			return err
		}
		return model.CellError(model.ErrCorrupt, cell, "the lock of transaction %d names a primary in table %q, which is not in the schema", l.StartTS, l.Primary.Table)
	}
	for {
		s, err := r.Status(ctx, l.Primary, l.StartTS)
		switch {
		case err != nil:
			return err
		case s.State == TxnCommitted:
			_, err = r.rollForward(ctx, cell, l, s.CommitTS)
			return err
		case s.State == TxnRolledBack:
			_, err = r.rollBackCell(ctx, cell, l.StartTS)
			return err
		}
		if _, err := r.RollBackPrimary(ctx, l.Primary, l.StartTS); err != nil {
			return err
		}
	}
}

// isDead asks the oracle for the time, since machines' clocks are never compared, and then for the
// session of the lock's owner.
func (r *Resolver) isDead(ctx context.Context, l layout.LockRecord) (bool, error) {
	now, err := r.Clock.Next(ctx)
	if err != nil {
		return false, err
	}
	return l.Dead(now, func(session string) bool { return r.Sessions.hasEnded(ctx, session) }), nil
}

// RollBackPrimary makes it impossible for startTS to commit, unless its status is already final:
// matched says that a record or marker was there. It repeats an ambiguous request: the predicate
// makes it idempotent.
func (r *Resolver) RollBackPrimary(ctx context.Context, primary model.Cell, startTS tso.Timestamp) (matched bool, err error) {
	return r.Meta.Retry(ctx, r.marking(primary, startTS, nil))
}

// RollBackOwn is RollBackPrimary for a transaction of this client, also beside a repair, whose
// verdict is the same. siblings are further columns of the primary's row that it locked.
func (r *Resolver) RollBackOwn(ctx context.Context, primary model.Cell, startTS tso.Timestamp, siblings []string) (matched bool, err error) {
	return r.Store.Retry(ctx, r.marking(primary, startTS, siblings))
}

// marking is the request that places a marker.
func (r *Resolver) marking(primary model.Cell, startTS tso.Timestamp, siblings []string) func(context.Context) (bool, error) {
	mut := store.NewMutation(2)
	for _, col := range append([]string{primary.Column}, siblings...) {
		mut.RollBack(col, startTS)
	}
	mut.Put(layout.WriteFamily, primary.Column, startTS, layout.EncodeWrite(startTS, layout.KindRollback))
	return func(ctx context.Context) (bool, error) {
		return r.Store.CheckAndMutate(ctx, primary.Table, primary.Row, store.Record(primary.Column, startTS), nil, mut)
	}
}

// rollForward does for one cell what phase two of its transaction would have done, notification
// included (I10).
func (r *Resolver) rollForward(ctx context.Context, cell model.Cell, l layout.LockRecord, commitTS tso.Timestamp) (resolved, error) {
	mut := store.NewMutation(2)
	mut.Commit(cell.Column, l.Kind, l.StartTS, commitTS, l.Observed, l.Life)
	held, err := r.changeHeld(ctx, cell, l.StartTS, mut)
	if err != nil {
		return resolved{}, err
	}
	if !held {
		return resolved{Resolution: model.LockGone, CommitTS: commitTS}, nil
	}
	r.Store.Count.RolledForward.Add(1)
	r.Store.Trace.Current(ctx).Event("percolator.lock.resolved", cell.Table, "rolled_forward")
	if l.Observed {
		r.Dispatch.Notified(model.Notification{Cell: cell, Timestamp: commitTS})
	}
	return resolved{model.LockRolledForward, commitTS}, nil
}

// rollBackCell erases the lock and the data of a transaction that can never commit, by its primary
// (I9).
func (r *Resolver) rollBackCell(ctx context.Context, cell model.Cell, startTS tso.Timestamp) (resolved, error) {
	mut := store.NewMutation(2)
	mut.RollBack(cell.Column, startTS)
	held, err := r.changeHeld(ctx, cell, startTS, mut)
	if err != nil {
		return resolved{}, err
	}
	if !held {
		return resolved{Resolution: model.LockGone}, nil
	}
	return r.rolledBack(ctx, cell), nil
}

// rolledBack counts and traces a lock that this client rolled back.
func (r *Resolver) rolledBack(ctx context.Context, cell model.Cell) resolved {
	r.Store.Count.RolledBack.Add(1)
	r.Store.Trace.Current(ctx).Event("percolator.lock.resolved", cell.Table, "rolled_back")
	return resolved{Resolution: model.LockRolledBack}
}

// changeHeld applies mut if the transaction still holds the cell (I9).
func (r *Resolver) changeHeld(ctx context.Context, cell model.Cell, startTS tso.Timestamp, mut *store.Mutation) (held bool, err error) {
	return r.Meta.Retry(ctx, func(ctx context.Context) (bool, error) {
		return r.Store.CheckAndMutate(ctx, cell.Table, cell.Row, store.HeldLock(cell.Column, startTS), mut, nil)
	})
}
