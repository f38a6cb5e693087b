package observers

import (
	"container/list"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/tso"
)

// entry is a dirty cell that this worker has heard of. A cell has at most one, so that this worker
// never runs for it twice at once, and notifications join a waiting cell. queue.mu guards all
// fields.
type entry struct {
	column *column
	row    string
	newest tso.Timestamp // the newest notification; it only grows
	state  entryState
	class  entryClass
	tasks  []task // of the column's observers, in their order

	// In stateRunning: the task that runs.
	running int
	// In stateDelayed: the earliest time at which a task may run. In runner.gathered: since when it
	// waits for its batch.
	due time.Time
	// In stateDelayed: its place in queue.delayed.
	index int
	// When it last entered stateReady.
	readied time.Time

	// asOf is memory.sequence when the entry learned its observer states.
	asOf uint64
	// stored: the row holds, or held, observer states of the cell.
	stored bool
	// handOvers is how often workers have handed the cell over.
	handOvers int
}

type entryState uint8

const (
	stateReady    entryState = iota // in queue.ready, runner.gathered, runner.blocked or retries.blocked
	stateDelayed                    // in queue.delayed
	stateRunning                    // its observers run one after the other
	stateOffered                    // to other workers, by takeBacklog
	stateReturned                   // offered, and handed over to this worker itself
	stateNew                        // nowhere yet, and not counted
)

// task is one observer's work for a cell.
type task struct {
	// The observer is done, and is parked, for notifications up to these. ran goes back only after a
	// repair, parked also when an operator has retried the cell.
	ran, parked tso.Timestamp
	// due is when the task may run, if it is pending. Zero while it runs, unless the cell was notified
	// again since it started.
	due time.Time
	// failures are those in a row; the pause grows with them. attempts are those of them that the cell
	// or the observer is to blame for, since the change that is the newest.
	failures, attempts int
	// alone: the cell has failed by itself, and joins no batch until it succeeds.
	alone    bool
	activity activity
	// In stateDelayed, if the task is due and waits for others: its element of ordering.held.
	held *list.Element
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
			if t.due.IsZero() { // the run may have started before ts: it decides when it has ended
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

// earliest returns when the next task may run, as of now; false without one.
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
	return ordered.Map(e.tasks, func(t task) observerState { return observerState{t.ran, t.parked} })
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
