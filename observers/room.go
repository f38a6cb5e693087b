package observers

import "context"

// room bounds the entries of a queue. queue.mu guards it.
type room struct {
	// counts are the entries of each class. Those of found and dispatched are at most at their limit,
	// but for cells that were handed over to this worker. Those of waiting may exceed it by the cells
	// that run: the next of these that fails is forgotten.
	counts, limits [classes]int
	// denied: a notification of this client was refused since missed has been sent to.
	denied bool
	// missed, of capacity 1, receives when there is room for what was denied, or what was handed over
	// is this worker's again.
	missed chan struct{}
}

// entryClass is what an entry counts as. Each class has its own bound: a flood of dispatched cells
// does not keep the scan from other writers' cells, and cells that fail or collapse do not keep out
// those that could run.
type entryClass uint8

const (
	dispatched entryClass = iota // by this process's own client, or by another worker
	found                        // by a look, a scan or a hint
	waiting                      // failed before, or waits for other notifications or observers
	classes
)

// class returns the class of a new cell of the column.
func (c *column) class(a arrival) entryClass {
	if a.handOvers > 0 {
		return dispatched // it has waited
	}
	for _, rn := range c.runners {
		if rn.collapse > 0 || rn.maxWait > 0 || len(rn.awaits) > 0 {
			continue
		}
		if a.from == fromClient || a.from == fromHandOver {
			return dispatched
		}
		return found
	}
	return waiting
}

// cells is the number of cells that are queued, waiting, offered or running.
func (r *room) cells() int {
	n := 0
	for _, c := range r.counts {
		n += c
	}
	return n
}

func (r *room) full(class entryClass) bool { return r.counts[class] >= r.limits[class] }

// refuse returns the verdict on a cell for which there is no room.
func (r *room) refuse(class entryClass, from source) verdict {
	r.denied = r.denied || from == fromClient
	if class == waiting {
		return crowded
	}
	return full
}

// uncount removes an entry from its class and wakes those who wait for room or for the end.
func (q *queue) uncount(e *entry) {
	r := &q.room
	r.counts[e.class]--
	half := r.counts[e.class] == r.limits[e.class]/2
	if r.cells() == 0 || (half && e.class == found) {
		q.broadcast()
	}
	if half && e.class != found && r.denied {
		r.denied = false
		signal(r.missed)
	}
}

// reclass counts an entry in another class.
func (q *queue) reclass(e *entry, class entryClass) {
	if e.class == class {
		return
	}
	q.room.counts[class]++
	q.uncount(e)
	e.class = class
}

// awaitRoom waits until there is room for half of the cells that may be found: waking a scanner for
// each costs more. It returns false when ctx has ended or the queue is closed.
func (q *queue) awaitRoom(ctx context.Context) bool {
	for {
		q.mu.Lock()
		if q.phase != queueOpen || q.room.counts[found] <= q.room.limits[found]/2 {
			defer q.mu.Unlock()
			return q.phase == queueOpen
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

// hasRoom reports whether a new cell of a class has a place.
func (q *queue) hasRoom(class entryClass) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.room.full(class)
}

// signal wakes the goroutine that waits on a channel of capacity 1.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
