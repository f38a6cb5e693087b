package observers

import (
	"context"
	"sync"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// queue holds the dirty cells that a worker has heard of and hands them to its goroutines: first
// come, first served, but for head starts, except that a cell waits for its pause to end, for the
// observers that its own comes after, and for its observer to have a slot.
// Losing the queue loses nothing: notifications stay in the table until everything is done.
//
// Each cell of the worker's columns has at most one entry. From insert to forget the entry counts
// in room, is in column.cells, and is in exactly one place: ready, delayed, retries.blocked, a
// runner's blocked or gathered cells, a job, or an offer to other workers.
type queue struct {
	// mu guards what follows, and the fields of entries, runners and runs that say so.
	mu sync.Mutex
	// work wakes goroutines in take: something is ready, or the queue is closed.
	work sync.Cond
	// wake is closed, and becomes nil, when the phase changes, when the queue empties, and when there
	// is room for what is found. nil: no goroutine waits for that.
	wake  chan struct{}
	phase phase
	// runners are those of all columns. The list does not change.
	runners []*runner

	room    room
	ready   ready   // what waits for a goroutine
	delayed delayed // what waits for a time, or for other observers
	retries retries

	// running is how many jobs take has handed out that have not finished.
	running int
	// started counts entries and jobs. It only grows: a sweep during which it did proves nothing.
	started uint64

	memory   memory
	loops    loops
	handOver handOver
	delay    queueDelay
	pauses   pauses
}

// phase is what a queue does with notifications and goroutines. It only moves forward.
type phase uint8

const (
	queueNew    phase = iota // refuses notifications; take waits
	queueOpen                // admits notifications
	queueClosed              // refuses notifications; take returns; only entries that run are left
)

// pauses are those after failures: conflict after one that another transaction has won, which has
// made progress, failure after all others.
type pauses struct{ failure, conflict backoff }

// cellKey is a cell, cheap to compare.
type cellKey struct {
	column *column
	row    string
}

func newQueue(cfg Config, runners []*runner) *queue {
	q := &queue{
		runners: runners,
		room: room{
			limits: [classes]int{dispatched: cfg.QueueLength, found: max(1024, 8*cfg.Concurrency), waiting: cfg.QueueLength},
			missed: make(chan struct{}, 1),
		},
		retries: retries{limit: max(1, cfg.Concurrency/2)},
		memory:  newMemory(),
		loops:   loops{newLRU[loopKey, loop](loopsRemembered)},
		handOver: handOver{
			slots: cfg.Concurrency, backlog: make(chan struct{}, 1), idle: make(chan struct{}, 1),
			lent: loans{cells: newLRU[cellKey, loan](cfg.QueueLength), grace: 2 * max(0, cfg.Grace)},
		},
		pauses: pauses{
			failure:  backoff{cfg.MinBackoff, cfg.MaxBackoff},
			conflict: backoff{cfg.MinBackoff, max(cfg.MinBackoff, cfg.MaxBackoff/10)},
		},
	}
	for _, rn := range runners {
		rn.congestion = newCongestion(cfg.Concurrency)
	}
	q.work.L = &q.mu
	q.delayed.timer = time.AfterFunc(time.Hour, q.ripen)
	q.delayed.timer.Stop()
	return q
}

// open admits notifications.
func (q *queue) open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.phase = queueOpen
	q.broadcast()
}

// close admits nothing more and forgets everything that is not running. take returns false from now
// on.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.phase = queueClosed
	q.delayed.timer.Stop()
	for q.ready.len() > 0 {
		if next := q.ready.pop(); next.entry != nil {
			q.forget(next.entry)
		}
	}
	for q.retries.blocked.len() > 0 {
		q.forget(q.retries.blocked.pop())
	}
	for _, rn := range q.runners {
		for rn.blocked.len() > 0 {
			q.forget(rn.blocked.pop())
		}
		q.closeBatch(rn)
	}
	for q.delayed.heap.Len() > 0 {
		e := q.delayed.heap.First()
		q.delayed.remove(e)
		q.forget(e)
	}
	q.work.Broadcast()
	q.broadcast()
}

// verdict is what the queue did with a notification.
type verdict uint8

const (
	accepted  verdict = iota // a new entry
	joined                   // newer than what the cell's entry knew
	known                    // not newer
	parked                   // only parked observers are left
	finished                 // everything up to it is done: it only has to be erased
	elsewhere                // another worker may be about to run for it
	full                     // no room: wait for it
	crowded                  // no room among the waiting cells: do not wait for it
	refused                  // the worker does not run
	foreign                  // the worker does not take the column
)

// arrival is how a notification came to the queue.
type arrival struct {
	from source
	// stored are the observer states of the cell in the store; nil: they were not read.
	stored *storedStates
	// handOvers is how often workers have handed the cell over; above 0 only in fromHandOver.
	handOvers int
}

// source is who has led the worker to a notification.
type source uint8

const (
	fromClient    source = iota // this process's own client, which has written it
	fromSearch                  // a look, a scan or a hint
	fromContested               // the same, but another worker may be about to run for it
	fromHandOver                // another worker, or this one itself, which had asked for it: it is not refused for want of room
)

func (q *queue) add(col *column, row string, ts tso.Timestamp, a arrival) (v verdict, upTo tso.Timestamp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.insert(col, row, ts, a)
}

// insert queues a notification of col in row at ts. If the verdict is finished, everything up to
// upTo is done.
func (q *queue) insert(col *column, row string, ts tso.Timestamp, a arrival) (v verdict, upTo tso.Timestamp) {
	if q.phase != queueOpen {
		return refused, 0
	}
	e := col.cells[row]
	if e == nil {
		return q.insertNew(col, row, ts, a)
	}
	if ts <= e.newest {
		return q.update(e, a.stored), 0
	}
	now := time.Now()
	e.notify(ts, now)
	if e.state == stateDelayed { // a task that was done may be due before those that wait
		q.delayed.remove(e)
		q.schedule(e, now)
	}
	return joined, 0
}

// insertNew is insert for a cell without an entry.
func (q *queue) insertNew(col *column, row string, ts tso.Timestamp, a arrival) (v verdict, upTo tso.Timestamp) {
	key := cellKey{col, row}
	if upTo, ok := q.memory.finished.Get(key); ok && ts <= upTo {
		return finished, upTo
	}
	e := &entry{column: col, row: row, state: stateNew, tasks: make([]task, len(col.runners))}
	q.memory.recall(key, e, a.stored)
	if v, upTo := e.verdict(ts); v != accepted {
		return v, upTo
	}
	if a.from == fromContested || a.from == fromSearch && q.handOver.lent.has(key, ts) {
		return elsewhere, 0
	}
	e.class = col.class(a)
	if a.from != fromHandOver && q.room.full(e.class) {
		return q.room.refuse(e.class, a.from), 0
	}
	now := time.Now()
	e.notify(ts, now)
	col.cells[row] = e
	if e.handOvers = a.handOvers; a.handOvers > 0 {
		e.hasten()
	}
	q.room.counts[e.class]++
	q.started++
	q.schedule(e, now)
	return accepted, 0
}

// forget drops a counted entry. Its notification stays in the table unless it is done.
func (q *queue) forget(e *entry) {
	delete(e.column.cells, e.row)
	q.uncount(e)
	now := time.Now()
	for i := range e.tasks {
		q.vacate(e.column.runners[i], &e.tasks[i], taskIdle, now)
	}
}

// awaitEmpty waits until nothing is queued, waiting or running, or until ctx ends.
func (q *queue) awaitEmpty(ctx context.Context) (started uint64, err error) {
	for {
		q.mu.Lock()
		if q.room.cells() == 0 {
			defer q.mu.Unlock()
			return q.started, nil
		}
		wake := q.wakeup()
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-wake:
		}
	}
}

// emptySince reports whether nothing has started since awaitEmpty returned started.
func (q *queue) emptySince(started uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.room.cells() == 0 && q.started == started
}

// changed returns a channel that closes when the queue opens, closes or empties.
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

// saturated reports whether the goroutines have enough to do for a while.
func (q *queue) saturated() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	runs := 0
	for _, rn := range q.runners {
		runs += rn.active
	}
	return q.ready.len() >= runs && runs > 0
}

// sizes returns how many cells wait and how many run.
func (q *queue) sizes() (queued, running int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.room.cells() - q.running, q.running
}
