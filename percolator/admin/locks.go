package admin

import (
	"context"

	"github.com/gopercolator/percolator/percolator/model"
)

// ResolveLock resolves a lock that ScanPending or ListLocks returned, if it can be resolved now; it
// never waits for the lock's owner. The lock may have been resolved, and even collected, since:
// only what the cell holds counts. Errors: ErrCorrupt for a lock that contradicts the protocol, and
// those of the store and the oracle.
func (a *Admin) ResolveLock(ctx context.Context, l model.Lock) (model.Resolution, error) {
	return a.e.Locks.ResolveLock(ctx, l)
}
