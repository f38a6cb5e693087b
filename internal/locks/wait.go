package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/internal/telemetry"
	"github.com/gopercolator/percolator/tso"
)

// How a reader gets past the locks of a cell (I15).

// A reader that meets a live lock looks again after about MinLockWait, then ever later up to
// maxLockWait.
const (
	MinLockWait = 2 * time.Millisecond
	maxLockWait = 250 * time.Millisecond
)

// LockWait is a reader's patience with the locks of one cell.
type lockWait struct {
	pause   *retry.Backoff
	awaited tso.Timestamp // the transaction of this client that was waited for in memory
}

func NewLockWait() lockWait { return lockWait{pause: retry.New(MinLockWait, maxLockWait)} }

// ResolveOrWait waits for a lock's transaction if it is this client's own, and else resolves the
// lock, or pauses while its owner is alive. With a commit timestamp the transaction has committed;
// without one the cell has to be looked at again.
func (c *Resolver) ResolveOrWait(ctx context.Context, cell model.Cell, l layout.LockRecord, w *lockWait) (commitTS tso.Timestamp, err error) {
	isOwn := false
	if w.awaited != l.StartTS { // it is waited for once: then the store knows more
		w.awaited = l.StartTS
		commitTS, isOwn, err = c.Own.await(ctx, l.StartTS)
		if commitTS != 0 || err != nil {
			return commitTS, err
		}
	}
	settled, err := c.Resolve(ctx, cell, l, !isOwn)
	if err == nil && settled.Resolution == model.LockAlive {
		err = w.pause.Wait(ctx)
	}
	return settled.CommitTS, err
}

// LockWatch measures how long a read takes to get past the locks of a cell. A nil one measures
// nothing.
type LockWatch struct {
	c     *Resolver
	ctx   context.Context
	table string
	span  telemetry.Span
	begun time.Time
}

func (c *Resolver) WatchLock(ctx context.Context, table string) (context.Context, *LockWatch) {
	w := &LockWatch{c: c, table: table, begun: time.Now()}
	w.ctx, w.span = c.Store.Trace.Start(ctx, "percolator.lock_wait", table)
	c.Store.Count.LockWaiting.Add(1)
	return w.ctx, w
}

func (w *LockWatch) End(err error) {
	if w == nil {
		return
	}
	d := time.Since(w.begun)
	w.c.Store.Count.LockWaiting.Add(-1)
	w.c.Store.Count.LockWaits.Add(1)
	w.c.Store.Count.LockWaitTime.Add(int64(d))
	w.c.Store.Metrics.LockWait(w.ctx, w.table, d, err)
	w.span.End(err)
}

// LockedErr says that a reader whose context ended had been waiting for a lock, in whichever
// request it ended.
func LockedErr(ctx context.Context, cell model.Cell, blocker layout.LockRecord, err error) error {
	if ctx.Err() == nil || blocker.StartTS == 0 {
		return model.WithContext(ctx, err)
	}
	return fmt.Errorf("percolator: %s: %w: held by transaction %d: %w", cell, model.ErrLocked, blocker.StartTS, model.WithContext(ctx, err))
}
