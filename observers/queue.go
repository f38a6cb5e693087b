package observers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gopercolator/percolator/tso"
)

// queue holds the dirty cells that a worker knows of and hands them to its goroutines: first come,
// first served, but for head starts, except that a cell waits for its pause to end, for the
// observers that its own comes after, and for its observer to have a slot.
// Losing the queue loses nothing: notifications stay in the table until everything is done.
type queue struct {
	mu       sync.Mutex
	work     sync.Cond // ready is not empty, or the queue is closed
	ready    ready
	delayed  delayed
	runners  []*runner
	finished *simplelru.LRU[cellKey, tso.Timestamp]
	aside    *simplelru.LRU[cellKey, storedStates] // cells with a parked observer and no other work
	// Counts learned observer states and starts of their reads.
	sequence uint64
	wake     chan struct{} // closed on events; nil: no goroutine waits
	// A dispatched notification was dropped since the last send to missed.
	dropped bool
	// Receives when there is room for dropped notifications.
	missed   chan struct{}
	limits   [classes]int
	counts   [classes]int
	running  int
	repaired tso.Timestamp // what is known of runs up to here does not count
	retries  retries
	started  uint64 // entries and runs ever begun: a sweep during which it grew proves nothing
	open     bool
	closed   bool
	failure  backoff
	conflict backoff
	spread   spread
	lag      lag
}

// cellKey is a cell, cheap to compare.
type cellKey struct {
	column *column
	row    string
}

// finishedLimit bounds the memory of cells that need nothing now. Each cell beyond it costs the
// scan a look at the table.
const finishedLimit = 8192

func newQueue(cfg Config, runners []*runner) *queue {
	q := &queue{
		runners:  runners,
		finished: newLRU[tso.Timestamp](),
		aside:    newLRU[storedStates](),
		missed:   make(chan struct{}, 1),
		failure:  backoff{cfg.MinBackoff, cfg.MaxBackoff},
		conflict: backoff{cfg.MinBackoff, max(cfg.MinBackoff, cfg.MaxBackoff/10)},
	}
	for _, rn := range runners {
		rn.congestion = newCongestion(cfg.Concurrency)
	}
	q.retries.limit = max(1, cfg.Concurrency/2)
	q.limits[dispatched] = cfg.QueueLength
	q.limits[found] = max(1024, 8*cfg.Concurrency)
	q.limits[waiting] = cfg.QueueLength
	q.work.L = &q.mu
	q.spread = newSpread(cfg)
	q.delayed.timer = time.AfterFunc(time.Hour, q.ripen)
	q.delayed.timer.Stop()
	return q
}

func newLRU[V any]() *simplelru.LRU[cellKey, V] {
	cache, err := simplelru.NewLRU[cellKey, V](finishedLimit, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return cache
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

// reclass counts an entry in another class.
func (q *queue) reclass(e *entry, class entryClass) {
	if e.class == class {
		return
	}
	q.counts[class]++
	q.uncount(e)
	e.class = class
}

// uncount removes an entry from its class and wakes those who wait for room or for the end.
func (q *queue) uncount(e *entry) {
	q.counts[e.class]--
	half := q.counts[e.class] == q.limits[e.class]/2
	if q.active() == 0 || (half && e.class == found) {
		q.broadcast()
	}
	if half && e.class != found && q.dropped {
		q.dropped = false
		select {
		case q.missed <- struct{}{}:
		default:
		}
	}
}

// active is the number of cells that are queued, waiting or running.
func (q *queue) active() int {
	n := 0
	for _, c := range q.counts {
		n += c
	}
	return n
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

// offer queues a notification of col in row at ts; how is dispatched or found. stored are the
// observer states read from the store; nil: they were not read. If the verdict is finished,
// everything up to upTo is done.
func (q *queue) offer(col *column, row string, ts tso.Timestamp, how entryClass, stored *storedStates) (v verdict, upTo tso.Timestamp) {
	return q.add(col, row, ts, arrival{how: how, stored: stored})
}

// arrival is how a notification came to the queue.
type arrival struct {
	how       entryClass
	stored    *storedStates // nil: not read
	young     bool          // another worker may be about to run for it
	handOvers int           // how often workers have handed it over
	asked     bool          // for it, as there was room: who had it has forgotten it
}

func (q *queue) add(col *column, row string, ts tso.Timestamp, a arrival) (v verdict, upTo tso.Timestamp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.insert(col, row, ts, a)
}

// insert is add for a caller that holds q.mu.
func (q *queue) insert(col *column, row string, ts tso.Timestamp, a arrival) (v verdict, upTo tso.Timestamp) {
	if !q.open {
		return refused, 0
	}
	key, e := cellKey{col, row}, col.cells[row]
	switch {
	case e == nil:
		if upTo, ok := q.finished.Get(key); ok && ts <= upTo {
			return finished, upTo
		}
		e = &entry{column: col, row: row, state: stateNew, tasks: make([]task, len(col.runners))}
		q.recall(key, e, a.stored)
		if v, upTo := e.verdict(ts); v != accepted {
			return v, upTo
		}
		if a.young || a.how == found && q.spread.has(key, ts) {
			return elsewhere, 0
		}
	case ts <= e.newest:
		return q.update(e, a.stored), 0
	}
	class := col.class(a.how)
	if a.handOvers > 0 {
		class = dispatched // it has waited
	}
	if e.state == stateNew && !a.asked && q.counts[class] >= q.limits[class] {
		q.dropped = q.dropped || a.how == dispatched
		if class == waiting {
			return crowded, 0
		}
		return full, 0
	}
	now := time.Now()
	e.notify(ts, now)
	switch e.state {
	case stateNew:
		v = accepted
		col.cells[row] = e
		e.class = class
		if e.handOvers = a.handOvers; a.handOvers > 0 {
			e.hasten()
		}
		q.counts[class]++
		q.started++
		q.schedule(e, now)
		return accepted, 0
	case stateDelayed: // a task that was done may be due before those that wait
		q.delayed.remove(e)
		q.schedule(e, now)
	}
	return joined, 0
}

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
	for _, rn := range q.runners {
		for rn.blocked.len() > 0 {
			q.forget(rn.blocked.pop())
		}
		q.closeBatch(rn)
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
