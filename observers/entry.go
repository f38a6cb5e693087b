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
	column *column
	row    string
	newest tso.Timestamp // the newest notification known
	state  entryState
	class  entryClass
	tasks  []task    // one for each observer of the column
	turn   int       // the task that is running, in stateRunning
	due    time.Time // ready at, in stateDelayed; in lane.gathered: waiting since
	index  int       // in the heap of delayed entries
	asOf   uint64    // queue.sequence when it learned its observer states
	stored bool      // the row holds, or held, observer states of the cell

	readied   time.Time // when it became ready last
	handOvers int       // how often workers have handed it over
	returned  bool      // in stateOffered: it came back to this worker
}

type entryState uint8

const (
	stateReady   entryState = iota // in queue.ready, lane.blocked or lane.gathered
	stateDelayed                   // in queue.delayed
	stateRunning                   // its observers run one after the other
	stateOffered                   // to other workers
	stateNew                       // nowhere yet, and not counted
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
	for _, l := range c.lanes {
		if l.collapse == 0 && l.maxWait == 0 && len(l.awaits) == 0 {
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
	failed   bool          // its last attempt failed or snoozed, and it does not run
	busy     bool          // upstream.busy counts it
	held     *list.Element // of upstream.held; nil: it is not held
}

// reset forgets all failures.
func (t *task) reset(ran, parked tso.Timestamp, due time.Time) {
	*t = task{ran: ran, parked: parked, due: due, busy: t.busy, held: t.held}
}

// pending reports whether t has to run.
func (e *entry) pending(t *task) bool { return t.ran < e.newest && t.parked < e.newest }

// notify records a newer notification at ts. Tasks that were done or parked become pending; a
// waiting one keeps its turn, because the notification joins it.
func (e *entry) notify(ts tso.Timestamp, now time.Time) {
	for i := range e.tasks {
		t := &e.tasks[i]
		switch {
		case t.parked >= e.newest && t.parked > 0: // a new change gets new attempts
			t.reset(t.ran, t.parked, now.Add(e.column.lanes[i].collapse))
		case e.state == stateRunning && i == e.turn:
			if t.due.IsZero() { // the run may have begun before ts: it decides when it has ended
				t.due = now.Add(e.column.lanes[i].collapse)
			}
		case !e.pending(t):
			t.due, t.failed = now.Add(e.column.lanes[i].collapse), false
		default:
			t.attempts = 0 // all attempts for a new change, but after the pause already due
		}
	}
	e.newest = ts
	for i := range e.tasks {
		if t := &e.tasks[i]; e.counts(t) {
			e.column.lanes[i].occupy(t)
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
		case e.column.lanes[j].slots() <= 0 || !retry && t.attempts > 0:
			k = slotless
		}
		if i < 0 || k < kind || k == kind && e.start(j).Before(e.start(i)) {
			i, kind = j, k
		}
	}
	return i, i >= 0 && kind == slotless
}

// start is when task j was due, less its observer's head start.
func (e *entry) start(j int) time.Time { return e.tasks[j].due.Add(-e.column.lanes[j].headStart) }

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
