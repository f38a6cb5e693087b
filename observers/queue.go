package observers

import (
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
	lanes    []*lane
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

func newQueue(cfg Config, lanes []*lane) *queue {
	q := &queue{
		lanes:    lanes,
		finished: newLRU[tso.Timestamp](),
		aside:    newLRU[storedStates](),
		missed:   make(chan struct{}, 1),
		failure:  backoff{cfg.MinBackoff, cfg.MaxBackoff},
		conflict: backoff{cfg.MinBackoff, max(cfg.MinBackoff, cfg.MaxBackoff/10)},
	}
	for _, l := range lanes {
		l.congestion = newCongestion(cfg.Concurrency)
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
		q.vacate(e.column.lanes[i], &e.tasks[i], now)
	}
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
	for _, l := range q.lanes {
		runs += l.active
	}
	return q.ready.len() >= runs && runs > 0
}
