package observers

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// job is one run of one observer for one cell, or a cell's part in the run of a batch.
type job struct {
	entry   *entry
	runner  *runner
	newest  tso.Timestamp // the newest notification known when it began
	attempt int
	stale   bool  // another worker may have handled the notification since
	slot    *slot // of its run
	batch   []job // all jobs of its run, if take has returned it for a batch
}

// slot is what a run occupies until its last job has finished.
type slot struct {
	jobs  int  // that have not finished
	retry bool // it is one of those for retries as well
}

// take waits for a job, or for a batch of them. It returns false once the queue is closed.
func (q *queue) take() (job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for q.ready.len() == 0 && !q.closed {
			q.work.Wait()
		}
		if q.closed {
			return job{}, false
		}
		j, ok := q.takeNext(time.Now())
		if q.hungry() {
			signal(q.spread.hunger)
		}
		if ok {
			return j, true
		}
	}
}

// takeNext begins a run of what is ready first. false: it has to wait, or has nothing to do.
func (q *queue) takeNext(now time.Time) (job, bool) {
	next := q.ready.pop()
	if next.batch == nil {
		return q.takeCell(next.entry, now)
	}
	batch := q.takeBatch(next.batch, now)
	if len(batch) == 0 {
		return job{}, false
	}
	j := batch[0]
	j.batch = batch
	return j, true
}

// takeCell begins a run for one cell. false: it has to wait, or has nothing to do.
func (q *queue) takeCell(e *entry, now time.Time) (job, bool) {
	i, blocked := e.next(now, q.retries.slots() > 0)
	switch {
	case i < 0: // another observer's run finished what was due
		q.unblock(e.column)
		q.unblockRetries()
		q.schedule(e, now)
	case e.joins(i):
		q.unblock(e.column) // it may have been let in for another observer
		q.unblockRetries()
		q.gather(e, i, now)
	case blocked && e.column.runners[i].slots() > 0:
		q.retries.blocked.push(e)
		q.unblock(e.column) // it may have been let in for the slot that it leaves
	case blocked:
		e.column.runners[i].blocked.push(e)
		q.unblockRetries() // it may have been let in as one
	default:
		slot := &slot{retry: e.tasks[i].attempts > 0}
		if slot.retry {
			q.retries.active++
		}
		q.unblockRetries()
		q.lag.note(now.Sub(e.readied), now)
		return q.begin(e, i, slot), true
	}
	return job{}, false
}

// begin begins task i of an entry. The first job of a run takes its slot.
func (q *queue) begin(e *entry, i int, slot *slot) job {
	t, rn := &e.tasks[i], e.column.runners[i]
	t.due, t.failed = time.Time{}, false
	rn.occupy(t)
	e.state, e.job = stateRunning, i
	if slot.jobs == 0 {
		rn.active++
	}
	slot.jobs++
	rn.running++
	q.running++
	q.started++
	return job{entry: e, runner: rn, newest: e.newest, attempt: t.attempts + 1, stale: e.class != dispatched, slot: slot}
}

// leave takes a job out of its slot. The last one gives the slot back.
func (q *queue) leave(j job) {
	q.running--
	j.runner.running--
	if j.slot.jobs--; j.slot.jobs > 0 {
		return
	}
	j.runner.active--
	if j.slot.retry {
		q.retries.active--
	}
}

// unblock readies cells of the column that wait for a slot of one of its observers, or for others
// that are quiet by now. Every run that ends calls it for all observers of the column, because a
// cell that was let in may have found something else to do.
func (q *queue) unblock(c *column) {
	now := time.Now()
	for _, rn := range c.runners {
		q.admit(&rn.blocked, rn.slots(), now)
		q.release(rn, now)
		q.offerBatch(rn, now)
	}
}

// admit moves blocked cells to the ready ones, as many as there are free slots.
func (q *queue) admit(blocked *fifo[*entry], free int, now time.Time) {
	for ; free > 0 && blocked.len() > 0; free-- {
		e := blocked.pop()
		i, _ := e.next(now, q.retries.slots() > 0)
		q.line(e, i, now)
	}
}

// outcome is how a run ended.
type outcome struct {
	start    tso.Timestamp // the observer is done for notifications up to here; 0: it failed
	finished tso.Timestamp // all observers of the column are done up to here; 0: unknown

	committed bool // the observer was called, and the transaction committed
	erased    bool // there is no notification left

	err       error // why it failed
	conflict  bool  // because another transaction won
	contended bool  // and that was not another run for the same change
	locked    bool  // and it still holds its lock, which ends even if its client has died
	blameless bool  // because the store did not answer: not an attempt
	parked    bool  // it failed too often, and its observer state is stored

	dropped bool // the schema no longer observes the column

	snoozed bool          // the observer wants to be called again
	pause   time.Duration // after this

	// Of a batch:
	unread      bool      // the cell had no room in it
	undecodable []int     // the changes whose values cannot be decoded
	alone       bool      // the cell runs by itself from now on
	due         time.Time // when cells that waited together are due; zero: each for itself
	counted     bool      // congestion knows
}

// finish ends a job: the cell is done, has another job, waits, or is parked.
func (q *queue) finish(j job, out outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, now := j.entry, time.Now()
	q.leave(j)
	defer q.unblockRetries()
	if q.removed(j, out) {
		out = outcome{blameless: true}
	}
	if !out.counted {
		j.runner.count(out)
	}
	q.unblock(e.column)
	t := &e.tasks[e.job]
	switch {
	case out.dropped:
	case out.start != 0:
		e.done(t, out)
		q.spread.failing = 0
		if out.finished != 0 {
			q.finished.Add(cellKey{e.column, e.row}, out.finished)
		}
	default:
		q.fail(j, out, now)
	}
	if q.closed || out.dropped || e.class == waiting && q.counts[waiting] > q.limits[waiting] {
		q.forget(e)
		return
	}
	q.schedule(e, now)
}

// count tells congestion how a transaction ended.
func (rn *runner) count(out outcome) {
	switch {
	case out.contended:
		rn.congestion.conflicted()
	case out.committed:
		rn.congestion.committed()
	}
}

// done records a successful run of t. The run covers every notification known before it began,
// whatever its timestamp: one from the future would otherwise run without end.
func (e *entry) done(t *task, out outcome) {
	ran := out.start
	if t.due.IsZero() {
		ran = max(ran, e.newest)
	}
	t.reset(ran, t.parked, t.due)
	for i := range e.tasks {
		if o := &e.tasks[i]; o != t && o.ran < out.finished {
			o.ran, o.failures, o.attempts, o.alone = out.finished, 0, 0, false
		}
	}
}

// fail records a run of t that failed or snoozed, and schedules the next attempt if there is one.
func (q *queue) fail(j job, out outcome, now time.Time) {
	e := j.entry
	t := &e.tasks[e.job]
	t.failed = !out.alone
	switch {
	case out.snoozed:
		t.failures = 0
	case out.blameless:
		t.failures++
	case out.alone:
		t.alone = true
	case !t.due.IsZero(): // for a change that is not the newest any more
		t.failures++
		t.attempts, t.alone = 0, true
	default:
		t.failures++
		t.attempts++
		t.alone = true
	}
	if j.slot.jobs == 0 && !out.snoozed && !out.conflict && !out.alone { // once for each run
		q.spread.failing++
	}
	if e.class != waiting {
		q.counts[waiting]++
		q.uncount(e)
		e.class = waiting
	}
	switch {
	case !out.due.IsZero():
		t.due = out.due
	case out.snoozed:
		t.due = now.Add(out.pause)
	case out.parked: // for what was known when the run began; later changes get new attempts
		t.reset(t.ran, j.newest, t.due)
		q.sequence++
		e.asOf = q.sequence
	case out.conflict:
		t.due = now.Add(q.conflict.pause(t.failures))
	default:
		t.due = now.Add(q.failure.pause(t.failures))
	}
}

// sharedPause is the pause after another failure of jobs that the store is to blame for.
func (q *queue) sharedPause(jobs []job) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := 0
	for _, j := range jobs {
		most = max(most, j.entry.tasks[j.entry.job].failures)
	}
	return q.failure.pause(most + 1)
}

// lastOf reports whether j's observer, which has run at start, was the last of the cell's with
// work to do, and if so, up to when all of them are done.
func (q *queue) lastOf(j job, start tso.Timestamp) (upTo tso.Timestamp, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	upTo = start
	for i, t := range j.entry.tasks {
		switch {
		case i == j.entry.job:
		case t.ran < j.newest:
			return 0, false
		default:
			upTo = min(upTo, t.ran)
		}
	}
	return upTo, true
}
