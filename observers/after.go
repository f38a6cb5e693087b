package observers

import (
	"container/list"
	"slices"
	"time"
)

// After delays runs of an observer until others, by name, are idle: a cell that is due, or a batch,
// does not start while this worker has a cell of theirs that is queued, waits for its [Collapse],
// [MaxWait] or After, or runs. So what many runs upstream write to one cell costs one run, however
// slow they are. A run starts anyway once one of its cells has been due for limit, which must be
// positive. A cell is due when its Collapse or pause has ended.
//
// Cells of theirs that have failed or snoozed count only while they run, and parked ones do not
// count, so that a bad cell upstream delays nothing by its pauses. Name all observers upstream, not
// only the last ones: one that has not been notified yet is idle, even if a run that has committed
// is about to notify it. What other workers have queued does not count. Observers that wait for
// each other, or for themselves, wait until limit.
//
// [NewWorker] refuses names that are not registered. It ignores observers of columns that the
// worker does not take. If an observer has several of these options, the last one is in force.
func After(limit time.Duration, observers ...string) Option {
	return func(o *options) { o.afterLimit, o.after = limit, slices.Clone(observers) }
}

// ordering is an observer's place in the order that After defines: it waits for the runners in
// awaits, and those in awaitedBy wait for it. Both lists are fixed once the worker starts; queue.mu
// guards the rest.
type ordering struct {
	awaits    []*runner
	awaitedBy []*runner
	// busy is how many of the observer's tasks are in taskBusy.
	busy int
	// busyUpstream is how many runners of awaits have busy > 0. A run may start before its afterLimit
	// only at 0.
	busyUpstream int
	// held are the entries, of type *entry, in stateDelayed with a task of the observer that is due
	// and waits for busyUpstream to become 0. task.held is the task's element.
	held list.List
}

// activity is what a task is for those that wait for its observer.
type activity uint8

const (
	taskIdle   activity = iota // it has nothing to run for, or is parked: nobody waits for it
	taskBusy                   // it is queued, waits for its Collapse, MaxWait or After, or runs
	taskPaused                 // its last attempt failed or was postponed: nobody waits for it until the next one
)

// connect tells runners which of them wait for which.
func connect(runners []*runner) {
	byName := make(map[string]*runner, len(runners))
	for _, rn := range runners {
		byName[rn.name] = rn
	}
	for _, rn := range runners {
		for _, name := range rn.after {
			if u := byName[name]; u != nil && !slices.Contains(rn.awaits, u) {
				rn.awaits, u.awaitedBy = append(rn.awaits, u), append(u.awaitedBy, rn)
			}
		}
	}
}

// occupy makes a task busy.
func (rn *runner) occupy(t *task) {
	if t.activity == taskBusy {
		return
	}
	t.activity = taskBusy
	if rn.busy++; rn.busy > 1 {
		return
	}
	for _, d := range rn.awaitedBy {
		d.busyUpstream++
	}
}

// vacate makes a busy task idle or paused, and readies what has waited for that.
func (q *queue) vacate(rn *runner, t *task, as activity, now time.Time) {
	if t.activity != taskBusy {
		return
	}
	t.activity = as
	if rn.busy--; rn.busy > 0 {
		return
	}
	for _, d := range rn.awaitedBy {
		d.busyUpstream--
		q.release(d, now)
	}
}

// engages reports whether a task that does not run is to be busy.
func (e *entry) engages(t *task) bool { return e.pending(t) && t.activity != taskPaused }

// recount derives the activity of the tasks of an entry that does not run.
func (q *queue) recount(e *entry, now time.Time) {
	for i := range e.tasks {
		t, rn := &e.tasks[i], e.column.runners[i]
		if e.pending(t) && t.due.IsZero() { // since now, as far as this worker knows
			t.due = now
		}
		if e.engages(t) {
			rn.occupy(t)
		} else {
			q.vacate(rn, t, taskIdle, now)
		}
	}
}

// readyAt returns when task j may start, as of now. It may be earlier, if what it waits for becomes
// idle.
func (e *entry) readyAt(j int, now time.Time) time.Time {
	due, rn := e.tasks[j].due, e.column.runners[j]
	if rn.busyUpstream > 0 && !due.After(now) {
		return due.Add(rn.afterLimit)
	}
	return due
}

// hold lists a delayed entry with the runners whose tasks of it only wait for others.
func (e *entry) hold(now time.Time) {
	for j := range e.tasks {
		if t := &e.tasks[j]; e.pending(t) && !t.due.After(now) {
			t.held = e.column.runners[j].held.PushBack(e)
		}
	}
}

// unhold ends hold.
func (e *entry) unhold() {
	for j := range e.tasks {
		if t := &e.tasks[j]; t.held != nil {
			e.column.runners[j].held.Remove(t.held)
			t.held = nil
		}
	}
}

// release readies held cells once all that they wait for is idle: as many as there are slots, as
// more would only have to be held again when something upstream becomes busy.
func (q *queue) release(rn *runner, now time.Time) {
	for n := rn.slots() * max(1, rn.maxCells); n > 0 && rn.held.Len() > 0 && rn.busyUpstream == 0 && q.phase != queueClosed; n-- {
		e := rn.held.Front().Value.(*entry)
		q.delayed.remove(e)
		q.schedule(e, now)
	}
}

// takeAlong adds held cells to a batch that starts.
func (q *queue) takeAlong(r *run) {
	rn := r.runner
	for next := rn.held.Front(); next != nil && len(r.jobs) < rn.maxCells; {
		e := next.Value.(*entry)
		next = next.Next()
		if i := slices.Index(e.column.runners, rn); e.joins(i) && e.pending(&e.tasks[i]) {
			q.delayed.remove(e)
			q.startJob(r, e, i)
		}
	}
}
