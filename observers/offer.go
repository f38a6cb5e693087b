package observers

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

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
		e = &entry{column: col, row: row, state: stateNew, tasks: make([]task, len(col.lanes))}
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

// schedule moves a counted entry that is in no list to where it belongs now.
func (q *queue) schedule(e *entry, now time.Time) {
	q.recount(e, now)
	due, ok := e.earliest(now)
	switch {
	case !ok:
		if e.hasParked() {
			q.aside.Add(cellKey{e.column, e.row}, storedStates{e.asOf, e.observerStates()})
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
