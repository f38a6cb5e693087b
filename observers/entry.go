package observers

import (
	"container/list"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// entry is a dirty cell that this worker knows of. A cell has at most one, so that this worker
// never runs for it twice at once, and notifications join a waiting cell. queue.mu guards all
// fields.
type entry struct {
	column  *column
	row     string
	newest  tso.Timestamp // the newest notification known
	state   entryState
	class   entryClass
	tasks   []task    // one for each observer of the column
	running int       // the task that runs, in stateRunning
	due     time.Time // ready at, in stateDelayed; in runner.gathered: waiting since
	index   int       // in the heap of delayed entries
	asOf    uint64    // queue.sequence when it learned its observer states
	stored  bool      // the row holds, or held, observer states of the cell

	readied   time.Time // when it became ready last
	handOvers int       // how often workers have handed it over
}

type entryState uint8

const (
	stateReady    entryState = iota // in queue.ready, runner.blocked or runner.gathered
	stateDelayed                    // in queue.delayed
	stateRunning                    // its observers run one after the other
	stateOffered                    // to other workers, by takeSurplus
	stateReturned                   // offered, and handed over to this worker itself
	stateNew                        // nowhere yet, and not counted
)

// entryClass is what an entry counts as. Each class has its own bound: a flood of dispatched cells
// does not keep the scan from other writers' cells, and cells that fail or collapse do not keep out
// those that could run.
type entryClass uint8

const (
	dispatched entryClass = iota // by this process's own client
	found                        // by a scan
	waiting                      // failed before, or waits for other notifications or observers
	classes
)

// class returns the class of a new cell of the column that is known by way of how.
func (c *column) class(how entryClass) entryClass {
	for _, rn := range c.runners {
		if rn.collapse == 0 && rn.maxWait == 0 && len(rn.awaits) == 0 {
			return how
		}
	}
	return waiting
}

// task is one observer's part of an entry.
type task struct {
	ran      tso.Timestamp // done for notifications up to here
	parked   tso.Timestamp // parked for notifications up to here
	due      time.Time     // ready at; zero while it runs, unless notified again
	failures int           // in a row; the pause grows with them
	attempts int           // those failures that the cell or the observer is to blame for
	alone    bool          // it has failed by itself, and joins no batch until it succeeds
	activity activity
	held     *list.Element // of ordering.held; nil: it is not held
}

// reset forgets all failures.
func (t *task) reset(ran, parked tso.Timestamp, due time.Time) {
	t.resume()
	*t = task{ran: ran, parked: parked, due: due, activity: t.activity, held: t.held}
}

// resume ends the pause after a failure.
func (t *task) resume() {
	if t.activity == taskPaused {
		t.activity = taskIdle
	}
}

// pending reports whether t has to run.
func (e *entry) pending(t *task) bool { return t.ran < e.newest && t.parked < e.newest }

// notify records a newer notification at ts. Tasks that were done or parked become pending; a
// waiting one keeps its place, because the notification joins it.
func (e *entry) notify(ts tso.Timestamp, now time.Time) {
	for i := range e.tasks {
		t := &e.tasks[i]
		switch {
		case t.parked >= e.newest && t.parked > 0: // a new change gets new attempts
			t.reset(t.ran, t.parked, now.Add(e.column.runners[i].collapse))
		case e.state == stateRunning && i == e.running:
			if t.due.IsZero() { // the run may have begun before ts: it decides when it has ended
				t.due = now.Add(e.column.runners[i].collapse)
			}
		case !e.pending(t):
			t.due = now.Add(e.column.runners[i].collapse)
			t.resume()
		default:
			t.attempts = 0 // all attempts for a new change, but after the pause already due
		}
	}
	e.newest = ts
	for i := range e.tasks {
		if t := &e.tasks[i]; e.engages(t) {
			e.column.runners[i].occupy(t)
		}
	}
}

// next returns the task that was due first, but for head starts, of those that may run at now and
// have the slots they need: one of their observer's and, if they have failed before, one for
// retries (retry reports whether one is free). One that runs in a batch waits for its slot there,
// and comes after those that do not. If all such tasks lack a slot, next returns one of them with
// blocked set; without any, -1.
func (e *entry) next(now time.Time, retry bool) (i int, blocked bool) {
	const single, joining, slotless = 1, 2, 3
	i, kind := -1, slotless
	for j := range e.tasks {
		t := &e.tasks[j]
		if !e.pending(t) || e.readyAt(j, now).After(now) {
			continue
		}
		k := single
		switch {
		case e.joins(j):
			k = joining
		case e.column.runners[j].slots() <= 0 || !retry && t.attempts > 0:
			k = slotless
		}
		if i < 0 || k < kind || k == kind && e.start(j).Before(e.start(i)) {
			i, kind = j, k
		}
	}
	return i, i >= 0 && kind == slotless
}

// start is when task j was due, less its observer's head start.
func (e *entry) start(j int) time.Time { return e.tasks[j].due.Add(-e.column.runners[j].headStart) }

// earliest returns when the next task may run, by what is known at now; false without one.
func (e *entry) earliest(now time.Time) (at time.Time, ok bool) {
	for j := range e.tasks {
		if !e.pending(&e.tasks[j]) {
			continue
		}
		if t := e.readyAt(j, now); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// hasten makes all tasks due at once.
func (e *entry) hasten() {
	for i := range e.tasks {
		e.tasks[i].due = time.Time{}
	}
}

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

// learn tells the cell's entry of stored states that j has read. over: its observer has nothing to
// do for what j knows of, as it ran at ran, or, with 0, as it is parked.
func (q *queue) learn(j job, stored *storedStates) (ran tso.Timestamp, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.entry.adopt(stored, q.sequence)
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

// othersDone returns the cell's other observers that have run for everything j knows of, by name,
// each with the newest notification it has run for.
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
