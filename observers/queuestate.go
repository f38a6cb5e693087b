package observers

import (
	"context"
	"fmt"
)

// start admits notifications.
func (q *queue) start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = true
	q.broadcast()
}

// close admits nothing more and forgets everything that is not running. take returns false from now
// on.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open, q.closed = false, true
	q.delayed.timer.Stop()
	for q.ready.len() > 0 {
		if next := q.ready.pop(); next.entry != nil {
			q.forget(next.entry)
		}
	}
	for q.retries.blocked.len() > 0 {
		q.forget(q.retries.blocked.pop())
	}
	for _, l := range q.lanes {
		for l.blocked.len() > 0 {
			q.forget(l.blocked.pop())
		}
		q.closeBatch(l)
	}
	for len(q.delayed.heap) > 0 {
		e := q.delayed.heap[0]
		q.delayed.remove(e)
		q.forget(e)
	}
	q.work.Broadcast()
	q.broadcast()
}

// awaitIdle waits until nothing is queued, waiting or running. started counts everything that ever
// began.
func (q *queue) awaitIdle(ctx context.Context) (started uint64, err error) {
	for {
		q.mu.Lock()
		if q.active() == 0 {
			defer q.mu.Unlock()
			return q.started, nil
		}
		n, wake := q.active(), q.wakeup()
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("observers: %d cells are unfinished: %w", n, ctx.Err())
		case <-wake:
		}
	}
}

// quietSince reports whether nothing has begun since awaitIdle returned started.
func (q *queue) quietSince(started uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.active() == 0 && q.started == started
}

// awaitRoom waits until half of the slots for found cells are free: waking a scanner for each slot
// costs more. It returns false when ctx has ended or the queue is closed.
func (q *queue) awaitRoom(ctx context.Context) bool {
	for {
		q.mu.Lock()
		if !q.open || q.counts[found] <= q.limits[found]/2 {
			defer q.mu.Unlock()
			return q.open
		}
		wake := q.wakeup()
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-wake:
		}
	}
}

// changed returns a channel that closes when the queue starts, closes or becomes idle.
func (q *queue) changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wakeup()
}

// wakeup returns the channel to wait on. Take it under the lock under which the condition was
// checked.
func (q *queue) wakeup() <-chan struct{} {
	if q.wake == nil {
		q.wake = make(chan struct{})
	}
	return q.wake
}

func (q *queue) broadcast() {
	if q.wake != nil {
		close(q.wake)
		q.wake = nil
	}
}

// sizes returns how many cells wait and how many run.
func (q *queue) sizes() (queued, running int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.active() - q.running, q.running
}

// asOf begins a read of the store: it is newer than what the queue knows by now.
func (q *queue) asOf() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sequence++
	return q.sequence
}

// busy returns the number of runs under way.
func (q *queue) busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}
