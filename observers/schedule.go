package observers

import (
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
)

// An entry that is due waits for a goroutine in queue.ready, or with others for a batch (batch.go).
// One that is not due yet waits in queue.delayed. One whose observer has no slot waits in a fifo
// for it, and the slot's release brings it back here (take.go).

// HeadStart gives an observer's cells, or batches, a priority: a worker begins them before those of
// others that became ready up to d earlier. Nothing starves: what has been ready for longer than
// the head starts of the others comes first. 0, the default: first come, first served.
func HeadStart(d time.Duration) Option { return func(o *options) { o.headStart = d } }

// schedule moves a counted entry that is in no list to where it belongs now.
func (q *queue) schedule(e *entry, now time.Time) {
	q.recount(e, now)
	q.slowDown(e)
	due, ok := e.earliest(now)
	switch {
	case !ok:
		if e.hasParked() {
			q.memory.aside.Add(cellKey{e.column, e.row}, storedStates{e.asOf, e.observerStates()})
		}
		q.forget(e)
	case due.After(now):
		e.state, e.due = stateDelayed, due
		q.delayed.add(e)
		e.hold(now)
	default:
		q.makeReady(e, now)
	}
}

// makeReady queues an entry that is due: by itself, or among those that a batch takes together.
func (q *queue) makeReady(e *entry, now time.Time) {
	e.state, e.readied = stateReady, now
	i, _ := e.next(now, q.retries.slots() > 0)
	if i >= 0 && e.joins(i) {
		q.gather(e, i, now)
		return
	}
	q.line(e, i, now)
}

// line has an entry, whose task i is next, wait for a goroutine. -1: there is none after all.
func (q *queue) line(e *entry, i int, now time.Time) {
	var headStart time.Duration
	if i >= 0 {
		headStart = e.column.runners[i].headStart
	}
	q.ready.push(item{entry: e}, headStart, now)
	q.work.Signal()
	if q.backlog() > 0 {
		signal(q.handOver.backlog)
	}
}

// item is what a goroutine takes up: a cell, or a batch of an observer's cells.
type item struct {
	entry *entry
	batch *runner

	start   time.Time // when it became ready, less its head start
	arrival uint64
	line    int // of those with its head start
}

// before reports whether x is taken before y.
func (x *item) before(y *item) bool {
	if x.start.Equal(y.start) {
		return x.arrival < y.arrival
	}
	return x.start.Before(y.start)
}

// ready is what waits for a goroutine, ordered by when it became ready less its head start. Items
// with the same head start come in order, so that a fifo for each of the few head starts that there
// are is cheaper than a heap.
type ready struct {
	lines    []line
	arrivals uint64
	size     int
}

type line struct {
	headStart time.Duration
	items     fifo[item]
}

func (r *ready) len() int { return r.size }

// push adds an item that has become ready at now. Calls pass times in order.
func (r *ready) push(it item, headStart time.Duration, now time.Time) {
	r.arrivals++
	r.size++
	it.start, it.arrival = now.Add(-headStart), r.arrivals
	it.line = slices.IndexFunc(r.lines, func(l line) bool { return l.headStart == headStart })
	if it.line < 0 {
		it.line = len(r.lines)
		r.lines = append(r.lines, line{headStart: headStart})
	}
	r.lines[it.line].items.push(it)
}

// unpop puts items back that were popped, in that order: they come when they would have come.
func (r *ready) unpop(items []item) {
	r.size += len(items)
	for i := range r.lines {
		var back []item
		for _, it := range items {
			if it.line == i {
				back = append(back, it)
			}
		}
		r.lines[i].items.unpop(back)
	}
}

// pop takes the first item. There must be one.
func (r *ready) pop() item {
	var best *fifo[item]
	for i := range r.lines {
		f := &r.lines[i].items
		if f.len() > 0 && (best == nil || f.items[f.head].before(&best.items[best.head])) {
			best = f
		}
	}
	r.size--
	return best.pop()
}

// delayed holds entries whose pause has not ended, with one timer for all. queue.mu guards it.
type delayed struct {
	heap  ordered.Heap[*entry] // by due time
	timer *time.Timer
	armed time.Time // when the timer fires; zero: it does not
}

func (d *delayed) add(e *entry) {
	d.heap.Push(e)
	d.arm()
}

func (d *delayed) remove(e *entry) {
	d.heap.Remove(e.index)
	e.unhold()
}

// arm sets the timer to the first entry. It never sets it back, since firing early is harmless.
func (d *delayed) arm() {
	if d.heap.Len() == 0 {
		return
	}
	if due := d.heap.First().due; d.armed.IsZero() || due.Before(d.armed) {
		d.armed = due
		d.timer.Reset(time.Until(due))
	}
}

// ripen readies the entries that are due, or need not wait for other observers any longer. The
// timer calls it.
func (q *queue) ripen() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delayed.armed = time.Time{}
	if q.phase == queueClosed {
		return
	}
	for now := time.Now(); q.delayed.heap.Len() > 0 && !q.delayed.heap.First().due.After(now); {
		e := q.delayed.heap.First()
		q.delayed.remove(e)
		q.schedule(e, now)
	}
	q.delayed.arm()
}

// Before reports whether e is due before o; for delayed.heap.
func (e *entry) Before(o *entry) bool { return e.due.Before(o.due) }

// Placed notes the place of e in delayed.heap.
func (e *entry) Placed(at int) { e.index = at }

// fifo is a queue whose memory shrinks again.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(v T) { f.items = append(f.items, v) }

// first returns the oldest item. The queue must not be empty.
func (f *fifo[T]) first() T { return f.items[f.head] }

// pop takes the oldest item. The queue must not be empty.
func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	f.head++
	switch {
	case f.head == len(f.items) && f.head > 1024:
		f.items, f.head = nil, 0
	case f.head == len(f.items):
		f.items, f.head = f.items[:0], 0
	case f.head > 1024 && f.head > len(f.items)/2: // each item is moved at most once on average
		f.items, f.head = append([]T(nil), f.items[f.head:]...), 0
	}
	return v
}

// unpop puts items back that were popped, as the oldest.
func (f *fifo[T]) unpop(items []T) {
	if len(items) > f.head {
		f.items, f.head = append(items[:len(items):len(items)], f.items[f.head:]...), 0
		return
	}
	f.head -= len(items)
	copy(f.items[f.head:], items)
}
