package admin

import (
	"context"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/model"
)

// Lock is a lock as it is stored:
//
//	Cell     percolator.Cell
//	Primary  percolator.Cell // the cell that decides its transaction's status
//	StartTS  tso.Timestamp
//	Placed   tso.Timestamp // oracle time when it was placed or refreshed
//	TTL      time.Duration // it may be judged dead after Placed + TTL
//	Session  string        // the lease of its client; "" for none
//	Observed bool          // its commit notifies observers
//	Kind     string        // "put", "delete" or "lock"
//
// AliveUntil is when its time is up, and Overdue(now) for how long it has been: above 0 the lock is
// dead. Below, only its session can show that it is dead.
type Lock = layout.Lock

// Resolution tells what became of a lock.
type Resolution = model.Resolution

// What becomes of a lock.
const (
	LockAlive         = model.LockAlive         // alive and undecided: try again later
	LockRolledForward = model.LockRolledForward // had committed; the cell now shows it
	LockRolledBack    = model.LockRolledBack    // can no longer commit; the lock is erased
	LockGone          = model.LockGone          // another process had resolved the lock
)

// ResolveLock resolves a lock that ScanPending or ListLocks returned, if it can be resolved now; it
// never waits for the lock's owner. The lock may have been resolved, and even collected, since:
// only what the cell holds counts. Errors: ErrCorrupt for a lock that contradicts the protocol, and
// those of the store and the oracle.
func (a *Admin) ResolveLock(ctx context.Context, l Lock) (Resolution, error) {
	return a.e.Locks.ResolveLock(ctx, l)
}
