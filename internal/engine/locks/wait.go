package locks

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
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

// LockWait is how a reader waits for the locks of the cells that it reads.
type LockWait struct {
	pause   *retry.Backoff
	awaited map[tso.Timestamp]bool // transactions of this client that the reader awaited in memory
	blocker *Met                   // a lock that is in the way; nil: none is
}

// NewLockWait starts to wait for the locks of some cells.
func NewLockWait() LockWait { return LockWait{pause: retry.NewBackoff(MinLockWait, maxLockWait)} }

// ResolveOrWait awaits the transactions of locks that this client is committing. It resolves the
// others' locks, and pauses if the owner of one is alive. A lock with a commit timestamp has
// committed; for one without, the reader looks at the cell again.
func (r *Resolver) ResolveOrWait(ctx context.Context, met []*Met, w *LockWait) error {
	w.blocker = met[0]
	first := map[tso.Timestamp]bool{} // await each once only: then the store knows more
	for _, m := range met {
		if start := m.Lock.StartTS; !w.awaited[start] {
			first[start] = true
		}
	}
	if w.awaited == nil {
		w.awaited = first
	} else {
		maps.Copy(w.awaited, first)
	}
	err := r.together(ctx, met, func(ctx context.Context, m *Met) (settled bool, err error) {
		seen := SeenJustNow
		if first[m.Lock.StartTS] {
			var commitTS tso.Timestamp
			commitTS, seen, err = r.Own.await(ctx, m.Lock.StartTS)
			if commitTS != 0 || err != nil {
				m.CommitTS = commitTS
				return true, err
			}
		}
		m.Resolved, err = r.Resolve(ctx, m.Cell, m.Lock, seen)
		return m.Resolution == model.LockAlive, err
	})
	if err != nil {
		return err
	}
	for _, m := range met {
		if m.Err == nil && m.Resolution == model.LockAlive && m.CommitTS == 0 {
			w.blocker = m
			return w.pause.Wait(ctx)
		}
	}
	w.blocker = nil
	return nil
}

// Err adds ErrLocked to err if the context of a reader ended while a lock was in its way, whichever
// request the end cut off.
func (w *LockWait) Err(ctx context.Context, err error) error {
	if ctx.Err() == nil || w.blocker == nil {
		return retry.WithContext(ctx, err)
	}
	return fmt.Errorf("percolator: %s: %w: held by transaction %d: %w", w.blocker.Cell, model.ErrLocked, w.blocker.Lock.StartTS, retry.WithContext(ctx, err))
}

// LockWatch measures how long a read takes to get past the locks of its cells. A nil one measures
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
