package locks

import (
	"context"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// TxnState is what the primary says about a transaction.
type TxnState int

const (
	TxnUnknown    TxnState = iota // neither record nor lock: not yet prewritten there, or collected
	TxnLocked                     // its lock is on the primary
	TxnCommitted                  // its record is on the primary
	TxnRolledBack                 // its rollback marker is on the primary
)

// TxnStatus is the status of a transaction with what supports it.
type TxnStatus struct {
	State    TxnState
	CommitTS tso.Timestamp     // for TxnCommitted
	Lock     layout.LockRecord // the primary's lock, for TxnLocked
}

// final reports that the status cannot change any more. The Resolver remembers it: a reader that
// meets many locks of one transaction looks at its primary once.
func (s TxnStatus) final() bool { return s.State == TxnCommitted || s.State == TxnRolledBack }

// JudgedBy is the lock by which the transaction of l, which is not final, is judged dead or alive.
// Only the primary's is refreshed. An empty primary is normal while prewrites are in flight.
func (s TxnStatus) JudgedBy(l layout.LockRecord) layout.LockRecord {
	if s.State == TxnLocked {
		return s.Lock
	}
	return l
}

// TxnID names a transaction as its locks do.
type TxnID struct {
	Primary model.Cell
	StartTS tso.Timestamp
}

// DecidedRemembered is how many final statuses a client remembers; an entry is a cell's name and
// two numbers.
const DecidedRemembered = 4096

// StatusOf reads the status of startTS off what store.Primary returned. It is pure.
func StatusOf(primary model.Cell, startTS tso.Timestamp, v *layout.Versions) (TxnStatus, error) {
	if v == nil {
		return TxnStatus{}, nil
	}
	if v.Corrupt != nil {
		return TxnStatus{}, v.Corrupt
	}
	for _, w := range v.Writes {
		switch {
		case w.StartTS != startTS:
			continue
		case w.Kind == layout.KindRollback:
			return TxnStatus{State: TxnRolledBack}, nil
		}
		return TxnStatus{State: TxnCommitted, CommitTS: w.CommitTS}, nil
	}
	for _, l := range v.Locks {
		if l.StartTS != startTS {
			continue
		}
		if l.Primary != primary {
			return TxnStatus{}, catalog.CellError(model.ErrCorrupt, primary, "the lock of transaction %d on its primary names another primary, %s", startTS, l.Primary)
		}
		return TxnStatus{State: TxnLocked, Lock: l}, nil
	}
	return TxnStatus{}, nil
}

// Status reads the status of startTS from its primary.
func (r *Resolver) Status(ctx context.Context, primary model.Cell, startTS tso.Timestamp) (TxnStatus, error) {
	rv, err := r.Store.ReadVersions(ctx, primary.Table, primary.Row, store.Primary(primary.Column, startTS))
	if err != nil {
		return TxnStatus{}, err
	}
	return StatusOf(primary, startTS, rv[primary.Column])
}

// StatusOfLock reads the status of the transaction that holds the lock l on cell, which the caller
// has seen. Who still holds one after the table of its primary was dropped never committed (I26).
func (r *Resolver) StatusOfLock(ctx context.Context, cell model.Cell, l layout.LockRecord) (TxnStatus, error) {
	known, err := r.Meta.HasTable(ctx, l.Primary.Table)
	switch {
	case err != nil:
		return TxnStatus{}, err
	case known:
		return r.Status(ctx, l.Primary, l.StartTS)
	case r.Meta.WasDropped(l.Primary.Table, l.StartTS):
		return TxnStatus{State: TxnRolledBack}, nil
	}
	return TxnStatus{}, catalog.CellError(model.ErrCorrupt, cell, "the lock of transaction %d names a primary in table %q, which is not in the schema", l.StartTS, l.Primary.Table)
}
