package observers

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// observerState is what a worker knows of one observer of a cell: the newest notification it has
// run for, and the newest it is parked for. Zero: none known.
type observerState struct{ ran, parked tso.Timestamp }

// storedStates are the states of a cell's observers, in the order of the column's; nil if the
// store holds none. The request that read them began at asOf, of queue.asOf. What the queue has
// learned since is newer: another page, of the scan or of WaitIdle, or that it parked the cell.
type storedStates struct {
	asOf   uint64
	states []observerState
}

// hasParked reports whether an observer is parked for the cell's newest notification.
func (e *entry) hasParked() bool {
	for i := range e.tasks {
		if t := &e.tasks[i]; t.ran < e.newest && t.parked >= e.newest {
			return true
		}
	}
	return false
}

// adopt makes stored states those of e, unless e knows newer ones. An operator may have retried
// what e holds to be parked; what has run has run.
func (e *entry) adopt(stored *storedStates, now uint64) {
	newer := stored.asOf > e.asOf
	if newer {
		e.asOf = now
	}
	e.stored = e.stored || stored.states != nil
	for i := range e.tasks {
		t, s := &e.tasks[i], observerState{}
		if stored.states != nil {
			s = stored.states[i]
		}
		t.ran = max(t.ran, s.ran)
		if newer {
			t.parked = s.parked
		}
	}
}

func (e *entry) observerStates() []observerState {
	states := make([]observerState, len(e.tasks))
	for i, t := range e.tasks {
		states[i] = observerState{t.ran, t.parked}
	}
	return states
}

// recall restores the observer states of a new entry from memory and from the store.
func (q *queue) recall(key cellKey, e *entry, stored *storedStates) {
	if kept, ok := q.aside.Get(key); ok {
		e.adopt(&kept, kept.asOf)
	}
	if stored != nil {
		e.adopt(stored, q.sequence)
	}
}

// update applies stored states to a queued cell: another worker may have parked it, or an operator
// may have retried it.
func (q *queue) update(e *entry, stored *storedStates) verdict {
	if stored == nil {
		return known
	}
	now := time.Now()
	before, pending := e.earliest(now)
	e.adopt(stored, q.sequence)
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

// learn tells the cell's entry of stored states that tn has read. over: its observer has nothing to
// do for what tn knows of, as it ran at ran, or, with 0, as it is parked.
func (q *queue) learn(tn turn, stored *storedStates) (ran tso.Timestamp, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	tn.entry.adopt(stored, q.sequence)
	switch t := &tn.entry.tasks[tn.entry.turn]; {
	case t.ran >= tn.newest:
		return t.ran, true
	default:
		return 0, t.parked >= tn.newest
	}
}

// setStored says that the row of tn's cell holds observer states of it.
func (q *queue) setStored(tn turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	tn.entry.stored = true
}

// hasStored reports whether the row of tn's cell may hold observer states of it.
func (q *queue) hasStored(tn turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return tn.entry.stored
}

// otherParked reports whether another observer is parked for the notification that tn has handled:
// the notification then stays in the table.
func (q *queue) otherParked(tn turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, t := range tn.entry.tasks {
		if i != tn.entry.turn && t.ran < tn.newest && t.parked >= tn.newest {
			return true
		}
	}
	return false
}

// othersDone returns the cell's other observers that have run for everything tn knows of, by name,
// each with the newest notification it has run for.
func (q *queue) othersDone(tn turn) map[string]tso.Timestamp {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := map[string]tso.Timestamp{}
	for i, t := range tn.entry.tasks {
		if i != tn.entry.turn && t.ran >= tn.newest {
			done[tn.entry.column.names[i]] = t.ran
		}
	}
	return done
}

// verdict judges a notification at ts by the observer states of the cell.
func (e *entry) verdict(ts tso.Timestamp) (v verdict, upTo tso.Timestamp) {
	v, upTo = finished, tso.MaxTimestamp
	for i := range e.tasks {
		switch t := &e.tasks[i]; {
		case t.ran >= ts:
			upTo = min(upTo, t.ran)
		case t.parked >= ts:
			v = parked
		default:
			return accepted, 0
		}
	}
	return v, upTo
}
