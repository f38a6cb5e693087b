package admin

import (
	"context"

	"github.com/gopercolator/percolator/internal/model"
)

// Lock is a lock as it stands in the store, for tools and observers.
type Lock = model.Lock

// Resolution is what became of a lock.
type Resolution = model.Resolution

const (
	LockAlive         = model.LockAlive         // its transaction is alive and undecided: come back later
	LockRolledForward = model.LockRolledForward // the transaction had committed; the cell now shows it
	LockRolledBack    = model.LockRolledBack    // the transaction can no longer commit; the lock is erased
	LockGone          = model.LockGone          // the lock had been settled by somebody else
)

// ResolveLock settles a lock that ScanPending returned if it can be settled now; it never waits for
// its owner. The lock may have been settled, and even collected, since it was found: what counts is
// what the cell holds. Errors: ErrCorrupt for a lock that contradicts the protocol, and those of
// the store.
func (a *Admin) ResolveLock(ctx context.Context, l Lock) (Resolution, error) {
	return a.e.Locks.ResolveLock(ctx, l)
}
