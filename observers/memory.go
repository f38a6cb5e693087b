package observers

import (
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gopercolator/percolator/tso"
)

// memory is what a queue remembers of cells without an entry, and how it tells which of two things
// it has learned is newer. queue.mu guards it.
type memory struct {
	// finished holds up to when all observers of a cell are done.
	finished *simplelru.LRU[cellKey, tso.Timestamp]
	// aside holds the observer states of cells with a parked observer and no other work.
	aside *simplelru.LRU[cellKey, storedStates]
	// sequence counts the reads of observer states that have started, and the parkings here. It orders
	// them, and only grows.
	sequence uint64
	// repaired: a repair may have undone runs up to here. What was remembered of them is forgotten,
	// and what is heard of them does not count.
	repaired tso.Timestamp
}

// finishedLimit bounds the memory of cells that need nothing now. Each cell beyond it costs the
// scan a look at the table.
const finishedLimit = 8192

func newMemory() memory {
	return memory{finished: newLRU[cellKey, tso.Timestamp](finishedLimit), aside: newLRU[cellKey, storedStates](finishedLimit)}
}

// newLRU returns a cache. size must be positive.
func newLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	cache, err := simplelru.NewLRU[K, V](size, nil)
	if err != nil {
		panic(err)
	}
	return cache
}

// observerState is what a worker has learned of one observer of a cell: the newest notification it
// has run for, and the newest it is parked for. Zero: none known.
type observerState struct{ ran, parked tso.Timestamp }

// storedStates are the states of a cell's observers, in the order of the column's; nil if the
// store holds none. The request that read them started at asOf, of queue.asOf. What the queue has
// learned since is newer: another page, of the scan or of WaitIdle, or that it parked the cell.
type storedStates struct {
	asOf   uint64
	states []observerState
}

// recall restores the observer states of a new entry from memory and from the store.
func (m *memory) recall(key cellKey, e *entry, stored *storedStates) {
	if kept, ok := m.aside.Get(key); ok {
		e.adopt(&kept, kept.asOf)
	}
	if stored != nil {
		e.adopt(stored, m.sequence)
	}
}

// asOf starts a read of the store: it is newer than what the queue has learned so far.
func (q *queue) asOf() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.memory.next()
}

func (m *memory) next() uint64 {
	m.sequence++
	return m.sequence
}

// update applies stored states to a queued cell: another worker may have parked it, or an operator
// may have retried it.
func (q *queue) update(e *entry, stored *storedStates) verdict {
	if stored == nil {
		if slices.ContainsFunc(e.tasks, func(t task) bool { return t.ran < e.newest && t.parked >= e.newest }) {
			return parked // as far as the queue knows
		}
		return known
	}
	now := time.Now()
	before, pending := e.earliest(now)
	e.adopt(stored, q.memory.sequence)
	after, still := e.earliest(now)
	switch {
	case e.state == stateDelayed && (pending != still || !before.Equal(after)):
		q.delayed.remove(e)
		q.schedule(e, now)
	case e.state != stateRunning:
		q.recount(e, now)
	}
	return known
}

// learn tells the cell's entry of stored states that j has read. done: its observer has nothing to
// do for what j is for, as it ran at ran, or, with 0, as it is parked.
func (q *queue) learn(j job, stored *storedStates) (ran tso.Timestamp, done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.entry.adopt(stored, q.memory.sequence)
	switch t := &j.entry.tasks[j.entry.running]; {
	case t.ran >= j.newest:
		return t.ran, true
	default:
		return 0, t.parked >= j.newest
	}
}

// setStored says that the row of j's cell holds observer states of it.
func (q *queue) setStored(j job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.entry.stored = true
}

// hasStored reports whether the row of j's cell may hold observer states of it.
func (q *queue) hasStored(j job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return j.entry.stored
}

// otherParked reports whether another observer is parked for the notification that j has handled:
// the notification then stays in the table.
func (q *queue) otherParked(j job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, t := range j.entry.tasks {
		if i != j.entry.running && t.ran < j.newest && t.parked >= j.newest {
			return true
		}
	}
	return false
}

// othersDone returns the cell's other observers that have run for everything that j is for, by
// name, each with the newest notification it has run for.
func (q *queue) othersDone(j job) map[string]tso.Timestamp {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := map[string]tso.Timestamp{}
	for i, t := range j.entry.tasks {
		if i != j.entry.running && t.ran >= j.newest {
			done[j.entry.column.names[i]] = t.ran
		}
	}
	return done
}
