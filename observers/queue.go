package observers

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gopercolator/percolator/tso"
)

// queue holds the dirty cells that a worker knows of and hands them to its goroutines: first come,
// first served, except that a cell waits for its pause to end and for its observer to have a slot.
// Losing the queue loses nothing: notifications stay in the table until everything is done.
type queue struct {
	mu       sync.Mutex
	work     sync.Cond // ready is not empty, or the queue is closed
	ready    fifo[*entry]
	delayed  delayed
	lanes    []*lane
	finished *simplelru.LRU[cellKey, tso.Timestamp]
	aside    *simplelru.LRU[cellKey, storedStates] // of cells with a parked observer and nothing left to do
	sequence uint64                                // counts what is learned of observer states, and reads of them when they begin
	wake     chan struct{}                         // closed on what somebody may wait for; nil: nobody waits
	dropped  bool                                  // whether a dispatched notification was, since the last send to missed
	missed   chan struct{}                         // receives when there is room again for dropped notifications
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

// verdict is what the queue did with a notification.
type verdict uint8

const (
	accepted verdict = iota // a new entry
	joined                  // newer than what the cell's entry knew
	known                   // not newer
	parked                  // only parked observers are left
	finished                // everything up to it is done: it only has to be erased
	full                    // no room: wait for it
	crowded                 // no room among the waiting cells: do not wait for it
	refused                 // the worker does not run
	foreign                 // the worker does not take the column
)

// offer queues a notification of col in row at ts; how is dispatched or found. stored are the
// observer states read from the store; nil: they were not read. If the verdict is finished,
// everything up to upTo is done.
func (q *queue) offer(col *column, row string, ts tso.Timestamp, how entryClass, stored *storedStates) (v verdict, upTo tso.Timestamp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.open {
		return refused, 0
	}
	key, e := cellKey{col, row}, col.cells[row]
	switch {
	case e == nil:
		if upTo, ok := q.finished.Get(key); ok && ts <= upTo {
			return finished, upTo
		}
		e = &entry{column: col, row: row, state: stateNew, tasks: make([]task, len(col.lanes))}
		q.recall(key, e, stored)
		if v, upTo := e.verdict(ts); v != accepted {
			return v, upTo
		}
	case ts <= e.newest:
		return q.update(e, stored), 0
	}
	class := col.class(how)
	if e.state == stateNew && q.counts[class] >= q.limits[class] {
		q.dropped = q.dropped || how == dispatched
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

// schedule moves a counted entry that is in no list to where it belongs now.
func (q *queue) schedule(e *entry, now time.Time) {
	due, ok := e.earliest()
	switch {
	case !ok:
		if e.hasParked() {
			q.aside.Add(cellKey{e.column, e.row}, storedStates{e.asOf, e.observerStates()})
		}
		q.forget(e)
	case due.After(now):
		e.state, e.due = stateDelayed, due
		q.delayed.add(e)
	default:
		e.state = stateReady
		q.ready.push(e)
		q.work.Signal()
	}
}

// turn is one run of one observer for one cell.
type turn struct {
	entry   *entry
	lane    *lane
	newest  tso.Timestamp // the newest notification known when it began
	attempt int
	stale   bool // another worker may have handled the notification since
	retry   bool // it holds one of the slots for retries
}

// take waits for a turn. It returns false once the queue is closed.
func (q *queue) take() (turn, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for q.ready.len() == 0 && !q.closed {
			q.work.Wait()
		}
		if q.closed {
			return turn{}, false
		}
		e, now := q.ready.pop(), time.Now()
		i, blocked := e.next(now, q.retries.slots() > 0)
		switch {
		case i < 0: // another observer's run finished what was due
			q.unblock(e.column)
			q.unblockRetries()
			q.schedule(e, now)
			continue
		case blocked && e.column.lanes[i].slots() > 0:
			q.retries.blocked.push(e)
			continue
		case blocked:
			e.column.lanes[i].blocked.push(e)
			q.unblockRetries() // it may have been let in as one
			continue
		}
		t, l := &e.tasks[i], e.column.lanes[i]
		retry := t.attempts > 0
		if retry {
			q.retries.active++
		}
		q.unblockRetries()
		t.due = time.Time{}
		e.state, e.turn = stateRunning, i
		l.active++
		q.running++
		q.started++
		return turn{
			entry: e, lane: l, newest: e.newest, attempt: t.attempts + 1,
			stale: e.class != dispatched, retry: retry,
		}, true
	}
}

// unblock readies cells of the column that wait for a slot of one of its observers. Every run that
// ends calls it for all observers of the column, because a cell that was let in may have found
// something else to do.
func (q *queue) unblock(c *column) {
	for _, l := range c.lanes {
		q.admit(&l.blocked, l.slots())
	}
}

// admit moves blocked cells to the ready ones, as many as there are free slots.
func (q *queue) admit(blocked *fifo[*entry], free int) {
	for ; free > 0 && blocked.len() > 0; free-- {
		q.ready.push(blocked.pop())
		q.work.Signal()
	}
}

// outcome is how a run ended.
type outcome struct {
	start    tso.Timestamp // the observer is done for notifications up to here; 0: it failed
	finished tso.Timestamp // all observers of the column are done up to here; 0: unknown

	committed bool // the observer was called, and the transaction committed

	err       error // why it failed
	conflict  bool  // because another transaction won
	contended bool  // and that was not another run for the same change
	blameless bool  // because the store did not answer: not an attempt
	parked    bool  // it failed too often, and its observer state is stored

	snoozed bool          // the observer wants to be called again
	pause   time.Duration // after this
}

// finish ends a turn: the cell is done, has another turn, waits, or is parked.
func (q *queue) finish(tn turn, out outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, l, now := tn.entry, tn.lane, time.Now()
	q.running--
	l.active--
	if tn.retry {
		q.retries.active--
	}
	defer q.unblockRetries()
	if q.removed(tn, out) {
		out = outcome{blameless: true}
	}
	switch {
	case out.contended:
		l.congestion.conflicted()
	case out.committed:
		l.congestion.committed()
	}
	q.unblock(e.column)
	t := &e.tasks[e.turn]
	if out.start != 0 {
		e.done(t, out)
		if out.finished != 0 {
			q.finished.Add(cellKey{e.column, e.row}, out.finished)
		}
	} else {
		q.fail(tn, out, now)
	}
	if q.closed || e.class == waiting && q.counts[waiting] > q.limits[waiting] {
		q.forget(e)
		return
	}
	q.schedule(e, now)
}

// done records a successful run of t. The run covers every notification known before it began,
// whatever its timestamp: one from the future would otherwise run without end.
func (e *entry) done(t *task, out outcome) {
	ran := out.start
	if t.due.IsZero() {
		ran = max(ran, e.newest)
	}
	*t = task{ran: ran, parked: t.parked, due: t.due}
	for i := range e.tasks {
		if o := &e.tasks[i]; o != t && o.ran < out.finished {
			o.ran, o.failures, o.attempts = out.finished, 0, 0
		}
	}
}

// fail records a run of t that failed or snoozed, and schedules the next attempt if there is one.
func (q *queue) fail(tn turn, out outcome, now time.Time) {
	e := tn.entry
	t := &e.tasks[e.turn]
	switch {
	case out.snoozed:
		t.failures = 0
	case out.blameless:
		t.failures++
	case !t.due.IsZero(): // for a change that is not the newest any more
		t.failures++
		t.attempts = 0
	default:
		t.failures++
		t.attempts++
	}
	if e.class != waiting {
		q.counts[waiting]++
		q.uncount(e)
		e.class = waiting
	}
	if out.snoozed {
		t.due = now.Add(out.pause)
		return
	}
	if out.parked { // for what was known when the run began; later changes get new attempts
		*t = task{ran: t.ran, parked: tn.newest, due: t.due}
		q.sequence++
		e.asOf = q.sequence
		return
	}
	pauses := q.failure
	if out.conflict {
		pauses = q.conflict
	}
	t.due = now.Add(pauses.pause(t.failures))
}

// forget drops a counted entry. Its notification stays in the table unless it is done.
func (q *queue) forget(e *entry) {
	delete(e.column.cells, e.row)
	q.uncount(e)
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
	return q.ready.len() >= q.running && q.running > 0
}

// lastOf reports whether tn's observer, which has run at start, was the last of the cell's with
// work to do, and if so, up to when all of them are done.
func (q *queue) lastOf(tn turn, start tso.Timestamp) (upTo tso.Timestamp, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	upTo = start
	for i, t := range tn.entry.tasks {
		switch {
		case i == tn.entry.turn:
		case t.ran < tn.newest:
			return 0, false
		default:
			upTo = min(upTo, t.ran)
		}
	}
	return upTo, true
}
