package observers

import (
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
	due    time.Time // when it becomes ready, in stateDelayed
	index  int       // in the heap of delayed entries
	asOf   uint64    // queue.sequence when it learned its observer states
	stored bool      // the row holds, or held, observer states of the cell
}

type entryState uint8

const (
	stateReady   entryState = iota // in queue.ready, or in lane.blocked
	stateDelayed                   // in queue.delayed
	stateRunning                   // its observers run one after the other
	stateNew                       // nowhere yet, and not counted
)

// entryClass is what an entry counts as. Each class has its own bound: a flood of dispatched cells
// does not keep the scan from other writers' cells, and cells that fail or collapse do not keep out
// those that could run.
type entryClass uint8

const (
	dispatched entryClass = iota // by this process's own client
	found                        // by a scan
	waiting                      // failed before, or waits for more notifications to join
	classes
)

// class returns the class of a new cell of the column that is known by way of how.
func (c *column) class(how entryClass) entryClass {
	for _, l := range c.lanes {
		if l.collapse == 0 {
			return how
		}
	}
	return waiting
}

// task is one observer's part of an entry.
type task struct {
	ran      tso.Timestamp // done for notifications up to here
	parked   tso.Timestamp // parked for notifications up to here
	due      time.Time     // not to be run before; while it runs: zero, unless it was notified again
	failures int           // in a row; the pause grows with them
	attempts int           // those failures that the cell or the observer is to blame for
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
			*t = task{ran: t.ran, parked: t.parked, due: now.Add(e.column.lanes[i].collapse)}
		case e.state == stateRunning && i == e.turn:
			if t.due.IsZero() { // the run may have begun before ts: it decides when it has ended
				t.due = now.Add(e.column.lanes[i].collapse)
			}
		case !e.pending(t):
			t.due = now.Add(e.column.lanes[i].collapse)
		default:
			t.attempts = 0 // all attempts for a new change, but after the pause already due
		}
	}
	e.newest = ts
}

// next returns the first task that may run at now and has the slots it needs: one of its observer's
// and, if it has failed before, one for retries (retry reports whether one is free). If all such
// tasks lack a slot, it returns the first with blocked set; without any, -1.
func (e *entry) next(now time.Time, retry bool) (i int, blocked bool) {
	i = -1
	for j := range e.tasks {
		if t := &e.tasks[j]; !e.pending(t) || t.due.After(now) {
			continue
		}
		if e.column.lanes[j].slots() > 0 && (retry || e.tasks[j].attempts == 0) {
			return j, false
		}
		if i < 0 {
			i, blocked = j, true
		}
	}
	return i, blocked
}

// earliest returns when the next task may run; false without one.
func (e *entry) earliest() (due time.Time, ok bool) {
	for j := range e.tasks {
		if t := &e.tasks[j]; e.pending(t) && (!ok || t.due.Before(due)) {
			due, ok = t.due, true
		}
	}
	return due, ok
}
