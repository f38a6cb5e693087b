package observers

import (
	"container/list"
	"slices"
	"time"
)

// After delays runs of an observer until others, by name, are quiet: a cell that is due, or a
// batch, does not begin while this worker has a cell of theirs that is queued, waits for its
// [Collapse], [MaxWait] or After, or runs. So what many runs upstream write to one cell costs one
// run, however slow they are. A run begins all the same when a cell of it has been due for limit,
// which must be positive. A cell is due when its Collapse or pause is over.
//
// Cells of theirs that have failed or snoozed count only while they run, and parked ones do not
// count, so that a bad cell upstream delays nothing by its pauses. Name all observers upstream, not
// only the last ones: one that has not been notified yet is quiet, even if a run that has committed
// is about to notify it. What other workers have queued does not count. Observers that wait for
// each other, or for themselves, wait until limit.
//
// [NewWorker] refuses names that are not registered. It ignores observers of columns that the
// worker does not take. If an observer has several of these options, the last one is in force.
func After(limit time.Duration, observers ...string) Option {
	return func(o *options) { o.afterLimit, o.after = limit, slices.Clone(observers) }
}

// upstream is what a lane knows of others that it waits for, and they of it. queue.mu guards all
// but the lists of lanes, which do not change.
type upstream struct {
	awaits    []*lane
	awaitedBy []*lane
	busy      int       // its tasks that queue, wait or run; failed ones only in a run
	noisy     int       // of awaits, those that are busy
	held      list.List // of *entry: delayed cells with a task that waits for awaits
}

// connect tells lanes which of them wait for which.
func connect(lanes []*lane) {
	byName := make(map[string]*lane, len(lanes))
	for _, l := range lanes {
		byName[l.name] = l
	}
	for _, l := range lanes {
		for _, name := range l.after {
			if u := byName[name]; u != nil && !slices.Contains(l.awaits, u) {
				l.awaits, u.awaitedBy = append(l.awaits, u), append(u.awaitedBy, l)
			}
		}
	}
}

// occupy counts a task as busy.
func (l *lane) occupy(t *task) {
	if t.busy {
		return
	}
	t.busy = true
	if l.busy++; l.busy > 1 {
		return
	}
	for _, d := range l.awaitedBy {
		d.noisy++
	}
}

// vacate counts a task as busy no more, and readies what has waited for that.
func (q *queue) vacate(l *lane, t *task, now time.Time) {
	if !t.busy {
		return
	}
	t.busy = false
	if l.busy--; l.busy > 0 {
		return
	}
	for _, d := range l.awaitedBy {
		d.noisy--
		q.release(d, now)
	}
}

// counts reports whether a task that does not run keeps others waiting.
func (e *entry) counts(t *task) bool { return e.pending(t) && !t.failed }

// recount counts the tasks of an entry that does not run.
func (q *queue) recount(e *entry, now time.Time) {
	for i := range e.tasks {
		t, l := &e.tasks[i], e.column.lanes[i]
		if e.pending(t) && t.due.IsZero() { // since now, for all that is known
			t.due = now
		}
		if e.counts(t) {
			l.occupy(t)
		} else {
			q.vacate(l, t, now)
		}
	}
}

// readyAt returns when task j may begin, by what is known at now. It may be earlier, if what it
// waits for becomes quiet.
func (e *entry) readyAt(j int, now time.Time) time.Time {
	due, l := e.tasks[j].due, e.column.lanes[j]
	if l.noisy > 0 && !due.After(now) {
		return due.Add(l.afterLimit)
	}
	return due
}

// hold lists a delayed entry with the lanes whose tasks of it only wait for others.
func (e *entry) hold(now time.Time) {
	for j := range e.tasks {
		if t := &e.tasks[j]; e.pending(t) && !t.due.After(now) {
			t.held = e.column.lanes[j].held.PushBack(e)
		}
	}
}

// unhold ends hold.
func (e *entry) unhold() {
	for j := range e.tasks {
		if t := &e.tasks[j]; t.held != nil {
			e.column.lanes[j].held.Remove(t.held)
			t.held = nil
		}
	}
}

// release readies held cells once all is quiet that they wait for: as many as there are slots, as
// more would only have to be held again when something stirs upstream.
func (q *queue) release(l *lane, now time.Time) {
	for n := l.slots() * max(1, l.maxCells); n > 0 && l.held.Len() > 0 && l.noisy == 0 && !q.closed; n-- {
		e := l.held.Front().Value.(*entry)
		q.delayed.remove(e)
		q.schedule(e, now)
	}
}

// takeAlong adds held cells to a batch that begins.
func (q *queue) takeAlong(l *lane, batch []turn, slot *slot) []turn {
	for next := l.held.Front(); next != nil && len(batch) < l.maxCells; {
		e := next.Value.(*entry)
		next = next.Next()
		if i := slices.Index(e.column.lanes, l); e.joins(i) && e.pending(&e.tasks[i]) {
			q.delayed.remove(e)
			batch = append(batch, q.begin(e, i, slot))
		}
	}
	return batch
}
