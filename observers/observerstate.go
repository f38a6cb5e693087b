package observers

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// What a worker knows of the observers of a cell: up to which notification each is done, or parked. The store's word counts, unless it
// was read before this worker parked the cell itself; the queue's sequence tells.

// word is what the store said of a cell's observers when the queue's sequence was asOf. known is nil if nothing stands.
type word struct {
	asOf  uint64
	known []standing
}

// hasParked tells whether an observer of the cell is parked for its newest notification.
func (e *entry) hasParked() bool {
	for i := range e.tasks {
		if t := &e.tasks[i]; t.ran < e.newest && t.parked >= e.newest {
			return true
		}
	}
	return false
}

// standing says up to where an observer need not be run for a cell, as far as it is known.
type standing struct{ ran, parked tso.Timestamp }

// stand takes in what is known of the cell's observers, in the order of its column's; nil: nothing.
func (e *entry) stand(known []standing) {
	for i, k := range known {
		t := &e.tasks[i]
		t.ran, t.parked = max(t.ran, k.ran), max(t.parked, k.parked)
	}
}

// standings is what is known of the cell's observers now.
func (e *entry) standings() []standing {
	known := make([]standing, len(e.tasks))
	for i := range e.tasks {
		known[i] = standing{e.tasks[i].ran, e.tasks[i].parked}
	}
	return known
}

// recall tells a new entry how its observers stand. What is remembered of a parked one does not count against a later word of the store:
// it may have been retried.
func (q *queue) recall(key cellKey, e *entry, said *word) {
	if kept, ok := q.aside.Get(key); ok {
		if e.stand(kept.known); said != nil && kept.asOf <= said.asOf {
			for i := range e.tasks {
				e.tasks[i].parked = 0
			}
		}
	}
	if said != nil {
		e.stand(said.known)
	}
}

// heard takes in what the store says of a cell that is in the queue: another worker may have given up on it, or somebody had it
// retried.
func (q *queue) heard(e *entry, said *word) verdict {
	if said == nil {
		return known
	}
	changed := false
	for i := range e.tasks {
		t, k := &e.tasks[i], standing{}
		if said.known != nil {
			k = said.known[i]
		}
		before := e.pending(t)
		t.ran = max(t.ran, k.ran)
		if said.asOf >= t.parkedAt {
			t.parked = k.parked
		}
		changed = changed || e.pending(t) != before
	}
	if changed && e.state == stateDelayed {
		q.delayed.remove(e)
		q.place(e, time.Now())
	}
	return known
}

// parkedBeside tells whether another observer is parked for what tn's has just done: the notification stays in the table.
func (q *queue) parkedBeside(tn turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range tn.entry.tasks {
		if t := &tn.entry.tasks[i]; i != tn.entry.turn && t.ran < tn.newest && t.parked >= tn.newest {
			return true
		}
	}
	return false
}

// doneBeside is what the other observers of tn's cell have done, where that is all that is known to be notified.
func (q *queue) doneBeside(tn turn) map[string]tso.Timestamp {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := map[string]tso.Timestamp{}
	for i := range tn.entry.tasks {
		if t := &tn.entry.tasks[i]; i != tn.entry.turn && t.ran >= tn.newest {
			done[tn.entry.column.names[i]] = t.ran
		}
	}
	return done
}

// stands tells what is to be done for a notification at ts by what is known of the cell's observers.
func (e *entry) stands(ts tso.Timestamp) (v verdict, upTo tso.Timestamp) {
	v, upTo = settled, tso.MaxTimestamp
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
