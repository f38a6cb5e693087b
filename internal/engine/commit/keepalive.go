package commit

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
)

// refreshesPerTTL is how many refreshes of a lock are due within its TTL. Of those that follow one
// that succeeded two may be lost: the third leaves a quarter of the TTL before the lock dies.
const refreshesPerTTL = 4

// requestsPerTTL is for how many requests, as slow as recent ones, a lock lives without a refresh:
// where requests take as long as the locks live, the next client would find every lock dead, and
// the fastest client would win each time.
const requestsPerTTL = 4

// lockTTL is the TTL of a lock that is placed now: longer than Config.LockTTL on a slow store, up
// to the request lifetime.
func (c *Committer) lockTTL() time.Duration {
	return max(c.Config.LockTTL, min(requestsPerTTL*c.Store.Conditional.Recent(), c.Store.Timing.RequestLifetime))
}

// keepAlive refreshes the time in the primary's lock while the commit takes longer than a quarter
// of the TTL. It gives a refresh up when the next one is due: a store that does not answer puts
// none off. A refresh is conditional on the lock: a plain write that landed late would bring back a
// lock that was rolled back.
func (cm *commit) keepAlive(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	cm.ttl = cm.c.lockTTL()
	interval := cm.ttl / refreshesPerTTL
	timer := time.AfterFunc(interval, func() {
		due := time.NewTicker(interval)
		defer due.Stop()
		for ctx.Err() == nil {
			cm.refresh(ctx, interval)
			select {
			case <-due.C:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		timer.Stop()
		cancel()
	}
}

func (cm *commit) refresh(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	mut := store.NewMutation(2)
	mut.Put(layout.LockFamily, cm.primary.Cell.Column, cm.startTS, cm.lock(cm.primary))
	cm.c.Store.CheckAndMutate(ctx, cm.primary.Cell.Table, cm.primary.Cell.Row, store.HeldLock(cm.primary.Cell.Column, cm.startTS), mut, nil)
}
