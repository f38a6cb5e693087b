package locks

import (
	"github.com/gopercolator/percolator/internal/engine/retry"

	"context"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// How a reader gets past the locks of a cell (I15).

// A reader that meets a live lock looks again after about MinLockWait, then ever later up to
// maxLockWait.
const (
	MinLockWait = 2 * time.Millisecond
	maxLockWait = 250 * time.Millisecond
)

// LockWait is how a reader waits for the locks of one cell.
type LockWait struct {
	pause   *retry.Backoff
	awaited tso.Timestamp // the transaction of this client that the reader awaited in memory
}

// NewLockWait starts to wait for the locks of a cell.
func NewLockWait() LockWait { return LockWait{pause: retry.NewBackoff(MinLockWait, maxLockWait)} }

// ResolveOrWait awaits a lock's transaction if this client is committing it. Otherwise it resolves
// the lock, or pauses while the owner is alive. With a commit timestamp the transaction has
// committed; without one the reader looks at the cell again.
func (r *Resolver) ResolveOrWait(ctx context.Context, cell model.Cell, l layout.LockRecord, w *LockWait) (commitTS tso.Timestamp, err error) {
	seen := SeenJustNow
	if w.awaited != l.StartTS { // await it once only: then the store knows more
		w.awaited = l.StartTS
		commitTS, seen, err = r.Own.await(ctx, l.StartTS)
		if commitTS != 0 || err != nil {
			return commitTS, err
		}
	}
	done, err := r.Resolve(ctx, cell, l, seen)
	if err == nil && done.Resolution == model.LockAlive {
		err = w.pause.Wait(ctx)
	}
	return done.CommitTS, err
}

// LockWatch measures how long a read takes to get past the locks of a cell. A nil one measures
// nothing.
type LockWatch struct {
	r     *Resolver
	ctx   context.Context
	table string
	span  telemetry.Span
	since time.Time
}

// WatchLock starts to measure; the context that it returns carries the span.
func (r *Resolver) WatchLock(ctx context.Context, table string) (context.Context, *LockWatch) {
	w := &LockWatch{r: r, table: table, since: time.Now()}
	w.ctx, w.span = r.Store.Trace.Start(ctx, "percolator.lock_wait", table)
	r.Store.Count.LockWaiting.Add(1)
	return w.ctx, w
}

// End ends the measurement with the outcome of the read.
func (w *LockWatch) End(err error) {
	if w == nil {
		return
	}
	d := time.Since(w.since)
	w.r.Store.Count.LockWaiting.Add(-1)
	w.r.Store.Count.LockWaits.Add(1)
	w.r.Store.Count.LockWaitTime.Add(int64(d))
	w.r.Store.Metrics.LockWait(w.ctx, w.table, d, err)
	w.span.End(err)
}

// LockedErr adds ErrLocked to err if the context of a reader ended while blocker, a lock, was in
// its way, whichever request the end cut off.
func LockedErr(ctx context.Context, cell model.Cell, blocker layout.LockRecord, err error) error {
	if ctx.Err() == nil || blocker.StartTS == 0 {
		return retry.WithContext(ctx, err)
	}
	return fmt.Errorf("percolator: %s: %w: held by transaction %d: %w", cell, model.ErrLocked, blocker.StartTS, retry.WithContext(ctx, err))
}
