package observers

import (
	"errors"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// outcome is how an attempt ended for one of its cells: a state, and what the state holds.
type outcome struct {
	state outcomeState

	// In runCommitted, runAcknowledged and runErased: the observer is done for notifications up to
	// through, and all observers of the column for those up to finished, or 0: not known.
	through, finished tso.Timestamp
	// In runConflicted, runFailed, runInconclusive and runParked: why. nil if this worker did not
	// make the attempt.
	err error
	// In runConflicted and runFailed: when the transaction began; 0: none has.
	began tso.Timestamp
	// In runConflicted: the conflict. nil: the observer returned one of its own.
	conflict *percolator.ConflictError
	// In runFailed: the changes of the attempt whose values cannot be decoded, if it is for them.
	undecodable []int
	// In runSnoozed and runIsolated: when the cell is due again. In runInconclusive as well, for
	// cells that wait together; zero: the queue decides.
	due time.Time
}

type outcomeState uint8

const (
	// runUnread: the attempt had no room for the cell, which comes in the next one of the run.
	runUnread outcomeState = iota
	// runCommitted: the observer was called, and the transaction committed.
	runCommitted
	// runAcknowledged: there was nothing to call the observer for, as another run had committed.
	runAcknowledged
	// runErased: the weak notification was gone, as another worker had run for it.
	runErased
	// runConflicted: another transaction won, or holds a lock. An attempt; parks the cell in the end
	// unless for a lock, which ends even if its client has died.
	runConflicted
	// runFailed: the cell or the observer is to blame. An attempt; parks the cell in the end.
	runFailed
	// runInconclusive: it says nothing about the cell, as the store did not answer, the outcome of
	// the commit is unknown, the worker stops, or a repair has undone the run. Not an attempt.
	runInconclusive
	// runSnoozed: the observer postponed the change. Not an attempt.
	runSnoozed
	// runIsolated: the bisection of a batch took too long. The cell runs by itself.
	runIsolated
	// runParked: it failed too often, here or elsewhere, and its observer state is stored.
	runParked
	// runDropped: the schema no longer observes the column.
	runDropped
)

// of is the outcome of an attempt that has failed in tx.
func (out outcome) of(tx *commit.Txn) outcome {
	out.began = tx.StartTimestamp()
	return out
}

// done reports whether the observer is done for the cell, up to out.through.
func (out outcome) done() bool {
	return out.state == runCommitted || out.state == runAcknowledged || out.state == runErased
}

// finishes reports whether no outage has kept the attempt from its end: it may have failed by its
// own fault.
func (out outcome) finishes() bool {
	switch out.state {
	case runSnoozed, runParked, runDropped:
		return true
	case runFailed:
		return stallOf(out.err) != silence
	}
	return out.done()
}

// contended reports whether another transaction won, which was not another run for the same change.
func (out outcome) contended() bool {
	return out.state == runConflicted && out.conflict != nil && !isAck(out.conflict.Cell)
}

// parks reports whether the cell is parked if this was its last attempt.
func (out outcome) parks() bool {
	locked := out.conflict != nil && out.conflict.Locked
	return out.state == runFailed || out.state == runConflicted && !locked
}

// unhealthy reports whether a worker all of whose runs end so should leave cells to others.
func (out outcome) unhealthy() bool {
	switch out.state {
	case runFailed, runInconclusive:
		return true
	case runParked:
		return !errors.Is(out.err, percolator.ErrConflict)
	}
	return false
}

// finish ends a job: the cell is done, has another run, waits, or is parked.
func (q *queue) finish(j job, out outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, now := j.entry, time.Now()
	q.leave(j)
	defer q.unblockRetries()
	if q.removed(j, out) {
		out = outcome{state: runInconclusive}
	}
	q.unblock(e.column)
	switch {
	case out.state == runDropped:
	case out.done():
		e.complete(&e.tasks[e.running], out)
		q.handOver.failing = 0
		if out.finished != 0 {
			q.memory.finished.Add(cellKey{e.column, e.row}, out.finished)
		}
	default:
		q.fail(j, out, now)
	}
	if q.phase == queueClosed || out.state == runDropped || e.class == waiting && q.room.counts[waiting] > q.room.limits[waiting] {
		q.forget(e)
		return
	}
	q.schedule(e, now)
}

// count tells the congestion of an observer, and its groups, how an attempt ended: one transaction,
// whatever its cells.
func (q *queue) count(r *run, outs []outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, out := range outs {
		switch {
		case out.state == runCommitted:
			r.runner.congestion.committed()
		case out.contended():
			r.runner.congestion.conflicted()
		default:
			continue
		}
		r.runner.groups.note(r)
		return
	}
}

// complete records a successful run of t. The run covers every notification known before it
// started, whatever its timestamp: one from the future would otherwise run without end.
func (e *entry) complete(t *task, out outcome) {
	ran := out.through
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

// fail records a job that is not done, and schedules the next attempt unless it is parked.
func (q *queue) fail(j job, out outcome, now time.Time) {
	e := j.entry
	t := &e.tasks[e.running]
	if j.open == 0 && out.unhealthy() { // once for each run
		q.handOver.failing++
	}
	q.reclass(e, waiting)
	switch out.state {
	case runIsolated:
		t.alone, t.due = true, out.due
		return
	case runParked: // for what was known when the run started; later changes get new attempts
		t.reset(t.ran, j.newest, t.due)
		e.asOf = q.memory.next()
		return
	case runSnoozed:
		t.failures = 0
	case runInconclusive:
		t.failures++
	default:
		t.failures++
		t.attempts++
		t.alone = true
		if !t.due.IsZero() { // it was for a change that is not the newest any more
			t.attempts = 0
		}
	}
	q.vacate(j.runner, t, taskPaused, now)
	switch {
	case out.state == runConflicted:
		t.due = now.Add(q.pauses.conflict.pause(t.failures))
	case out.state == runSnoozed, !out.due.IsZero():
		t.due = out.due
	default:
		t.due = now.Add(q.pauses.failure.pause(t.failures))
	}
}

// sharedPause is the pause before another attempt at cells that wait together.
func (q *queue) sharedPause(jobs []job) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := 0
	for _, j := range jobs {
		most = max(most, j.entry.tasks[j.entry.running].failures)
	}
	return q.pauses.failure.pause(most + 1)
}

// lastOf reports whether j's observer, which is done up to through, was the last of the cell's with
// work to do, and if so, up to when all of them are done.
func (q *queue) lastOf(j job, through tso.Timestamp) (upTo tso.Timestamp, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	upTo = through
	for i, t := range j.entry.tasks {
		switch {
		case i == j.entry.running:
		case t.ran < j.newest:
			return 0, false
		default:
			upTo = min(upTo, t.ran)
		}
	}
	return upTo, true
}
