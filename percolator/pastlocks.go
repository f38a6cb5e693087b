package percolator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// How a reader gets past the locks of a cell (I15).

// lockWait is a reader's patience with the locks of one cell.
type lockWait struct {
	pause   *backoff
	awaited tso.Timestamp // the transaction of this client that was waited for in memory
}

func newLockWait() lockWait { return lockWait{pause: newBackoff(minLockWait, maxLockWait)} }

// passLock waits for a lock's transaction if it is this client's own, and else resolves the lock, or pauses while its owner is alive.
// With a commit timestamp the transaction has committed; without one the cell has to be looked at again.
func (c *Client) passLock(ctx context.Context, cell Cell, l lockRecord, w *lockWait) (commitTS tso.Timestamp, err error) {
	isOwn := false
	if w.awaited != l.startTS { // it is waited for once: then the store knows more
		w.awaited = l.startTS
		commitTS, isOwn, err = c.own.await(ctx, l.startTS)
		if commitTS != 0 || err != nil {
			return commitTS, err
		}
	}
	settled, err := c.resolve(ctx, cell, l, !isOwn)
	if err == nil && settled.resolution == LockAlive {
		err = w.pause.wait(ctx)
	}
	return settled.commitTS, err
}

// lockWatch measures how long a read takes to get past the locks of a cell. A nil one measures nothing.
type lockWatch struct {
	c     *Client
	ctx   context.Context
	table string
	span  span
	begun time.Time
}

func (c *Client) watchLock(ctx context.Context, table string) (context.Context, *lockWatch) {
	w := &lockWatch{c: c, table: table, begun: time.Now()}
	w.ctx, w.span = c.trace.start(ctx, "percolator.lock_wait", table)
	c.count.lockWaiting.Add(1)
	return w.ctx, w
}

func (w *lockWatch) end(err error) {
	if w == nil {
		return
	}
	d := time.Since(w.begun)
	w.c.count.lockWaiting.Add(-1)
	w.c.count.lockWaits.Add(1)
	w.c.count.lockWaitTime.Add(int64(d))
	w.c.store.metrics.lockWait(w.ctx, w.table, d, err)
	w.span.end(err)
}

// committed is what the same look at the cell would have seen had the lock been settled before: its record in the place of the lock, and
// its data, which prewrite had put beside it. Nothing that came to the cell since can be visible to the reader: whoever has
// prewritten it after the lock was gone takes a commit timestamp after that (I5), and so after the reader's own. That spares the
// reader a second look. window grows with what is added to the versions. They may have many readers, so they are copied.
//
// There is no such way past a lock that was rolled back. That a transaction was rolled back is believed of one whose primary holds nothing,
// and that is also how a primary looks that was committed and collected while the reader was stopped. The lock is gone
// then, so no harm is done to the cell, but what lay beneath it may have been visible no more (I16): only the cell can say.
func (v *versions) committed(l lockRecord, commitTS tso.Timestamp, window int) (*versions, int) {
	out := &versions{writes: slices.Clone(v.writes), data: v.data}
	for _, other := range v.locks {
		if other.startTS != l.startTS {
			out.locks = append(out.locks, other)
		}
	}
	out.writes = append(out.writes, writeRecord{commitTS: commitTS, startTS: l.startTS, kind: l.kind})
	slices.SortFunc(out.writes, func(a, b writeRecord) int { return cmp.Compare(b.commitTS, a.commitTS) })
	return out, window + 1
}

// lockedErr says that a reader whose context ended had been waiting for a lock, in whichever request it ended.
func lockedErr(ctx context.Context, cell Cell, blocker lockRecord, err error) error {
	if ctx.Err() == nil || blocker.startTS == 0 {
		return withContext(ctx, err)
	}
	return fmt.Errorf("percolator: %s: %w: held by transaction %d: %w", cell, ErrLocked, blocker.startTS, withContext(ctx, err))
}
