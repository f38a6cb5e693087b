// Package locks finds out what became of a transaction whose lock is in the way, and resolves the
// lock. It sits on meta and store, beneath reads and commit; the primary cell alone decides.
package locks

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/percolator/model"
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
// sight of the lock and the verdict the transaction may have committed here and the collector have
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
	Config   store.Settings

	Decided  *lru.Cache[TxnID, TxnStatus] // final statuses
	Sessions *Sessions                    // which lock owners live
	Own      OwnCommits                   // commits of this client
}

// ResolveLock resolves a lock that ScanPending returned if that needs no waiting for its owner. The
// lock may have been resolved, and even collected, since the scan: what counts is what the cell
// holds. Errors: ErrCorrupt for a lock that contradicts the protocol, and the errors of the store.
func (r *Resolver) ResolveLock(ctx context.Context, l model.Lock) (model.Resolution, error) {
	if err := r.Meta.RequireTable(ctx, l.Cell.Table); err != nil {
		return model.LockAlive, err
	}
	if l.StartTS <= 0 {
		return model.LockAlive, catalog.CellError(model.ErrInvalidArgument, l.Cell, "a lock of transaction %d, which no transaction is", l.StartTS)
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
	s, err := r.Resolve(ctx, l.Cell, v.Locks[0], SeenJustNow)
	return s.Resolution, err
}

// Resolved is how a lock was resolved.
type Resolved struct {
	Resolution model.Resolution
	CommitTS   tso.Timestamp // with LockRolledForward
}

// Sight is when the caller of Resolve read the lock.
type Sight int

const (
	SeenEarlier Sight = iota // it has waited since, or read more
	SeenJustNow              // so a lock on its own primary shows that nothing is decided (I8)
)

// Resolve resolves the lock l on cell, without waiting. A lock on its own primary is seen once, by
// the caller, if that was just now and it is alive. Any other is judged by what is read here, and
// one that seemed dead at the first sight is seen twice: its owner may have refreshed it since.
//
//	seen once, alive              → leave it
//	seen once, dead               → suspect: read the primary
//	seen twice, decided           → roll this cell forward or back
//	seen twice, not as suspected  → judge it again: leave it if it is alive
//	seen twice, dead              → place the marker on the primary
func (r *Resolver) Resolve(ctx context.Context, cell model.Cell, l layout.LockRecord, seen Sight) (Resolved, error) {
	// A repair decides by its own rules. One may begin before the requests that change something.
	if _, err := r.Meta.CheckRepairing(ctx); err != nil {
		return Resolved{}, err
	}
	id := TxnID{l.Primary, l.StartTS}
	var suspect layout.LockRecord
	if seen == SeenJustNow && cell == l.Primary && !r.Decided.Contains(id) {
		if dead, err := r.isDead(ctx, l); err != nil || !dead {
			return Resolved{Resolution: model.LockAlive}, err
		}
		suspect = l
	}
	for {
		s, err := r.finalOrRead(ctx, cell, l)
		switch {
		case err != nil:
			return Resolved{}, err
		case s.State == TxnCommitted:
			return r.rollForward(ctx, cell, l, s.CommitTS)
		case s.State == TxnRolledBack:
			return r.rollBackCell(ctx, cell, l.StartTS)
		}
		if by := s.JudgedBy(l); by != suspect {
			if dead, err := r.isDead(ctx, by); err != nil || !dead {
				return Resolved{Resolution: model.LockAlive}, err
			}
		}
		matched, err := r.RollBackPrimary(ctx, l.Primary, l.StartTS)
		switch {
		case err != nil:
			return Resolved{}, err
		case matched:
			continue // it committed, or another client was faster: read which
		}
		r.Decided.Add(id, TxnStatus{State: TxnRolledBack})
		if cell == l.Primary {
			return r.rolledBack(ctx, cell), nil
		}
		return r.rollBackCell(ctx, cell, l.StartTS)
	}
}

// finalOrRead is the status of the transaction of a lock. This client remembers it if it is final.
func (r *Resolver) finalOrRead(ctx context.Context, cell model.Cell, l layout.LockRecord) (TxnStatus, error) {
	id := TxnID{l.Primary, l.StartTS}
	if s, known := r.Decided.Get(id); known {
		return s, nil
	}
	s, err := r.StatusOfLock(ctx, cell, l)
	if s.final() {
		r.Decided.Add(id, s)
	}
	return s, err
}

// ResolveDrained resolves a lock of a transaction that can no longer commit, since none of its
// requests can be in flight: it waits for no owner (J6).
func (r *Resolver) ResolveDrained(ctx context.Context, cell model.Cell, l layout.LockRecord) error {
	for {
		s, err := r.finalOrRead(ctx, cell, l)
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

// ResolveBelowWatermark resolves a lock of a transaction that began at or below the GC watermark:
// it needs no marker, as nothing commits there any more (J12).
func (r *Resolver) ResolveBelowWatermark(ctx context.Context, cell model.Cell, l layout.LockRecord) error {
	s, err := r.finalOrRead(ctx, cell, l)
	switch {
	case err != nil:
	case s.State == TxnCommitted:
		_, err = r.rollForward(ctx, cell, l, s.CommitTS)
	default:
		_, err = r.rollBackCell(ctx, cell, l.StartTS)
	}
	return err
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
func (r *Resolver) rollForward(ctx context.Context, cell model.Cell, l layout.LockRecord, commitTS tso.Timestamp) (Resolved, error) {
	mut := store.NewMutation(2)
	mut.Commit(cell.Column, l.Kind, l.StartTS, commitTS, l.Observed, l.Life)
	held, err := r.changeHeld(ctx, cell, l.StartTS, mut)
	if err != nil {
		return Resolved{}, err
	}
	if !held {
		return Resolved{Resolution: model.LockGone, CommitTS: commitTS}, nil
	}
	r.Store.Count.RolledForward.Add(1)
	r.Store.Trace.Current(ctx).Event("percolator.lock.resolved", cell.Table, "rolled_forward")
	if l.Observed {
		r.Dispatch.Notified(model.Notification{Cell: cell, Timestamp: commitTS})
	}
	return Resolved{model.LockRolledForward, commitTS}, nil
}

// rollBackCell erases the lock and the data of a transaction that can never commit, by its primary
// (I9).
func (r *Resolver) rollBackCell(ctx context.Context, cell model.Cell, startTS tso.Timestamp) (Resolved, error) {
	mut := store.NewMutation(2)
	mut.RollBack(cell.Column, startTS)
	held, err := r.changeHeld(ctx, cell, startTS, mut)
	if err != nil {
		return Resolved{}, err
	}
	if !held {
		return Resolved{Resolution: model.LockGone}, nil
	}
	return r.rolledBack(ctx, cell), nil
}

// rolledBack counts and traces a lock that this client rolled back.
func (r *Resolver) rolledBack(ctx context.Context, cell model.Cell) Resolved {
	r.Store.Count.RolledBack.Add(1)
	r.Store.Trace.Current(ctx).Event("percolator.lock.resolved", cell.Table, "rolled_back")
	return Resolved{Resolution: model.LockRolledBack}
}

// changeHeld applies mut if the transaction still holds the cell (I9).
func (r *Resolver) changeHeld(ctx context.Context, cell model.Cell, startTS tso.Timestamp, mut *store.Mutation) (held bool, err error) {
	return r.Meta.Retry(ctx, func(ctx context.Context) (bool, error) {
		return r.Store.CheckAndMutate(ctx, cell.Table, cell.Row, store.HeldLock(cell.Column, startTS), mut, nil)
	})
}
