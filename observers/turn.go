package observers

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// turn is one run of one observer for one cell, or a cell's part in the run of a batch.
type turn struct {
	entry   *entry
	lane    *lane
	newest  tso.Timestamp // the newest notification known when it began
	attempt int
	stale   bool   // another worker may have handled the notification since
	slot    *slot  // of its run
	batch   []turn // all turns of its run, if take has returned it for a batch
}

// slot is what a run occupies until its last turn has finished.
type slot struct {
	turns int  // that have not finished
	retry bool // it is one of those for retries as well
}

// take waits for a turn, or for a batch of them. It returns false once the queue is closed.
func (q *queue) take() (turn, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for q.ready.len() == 0 && !q.closed {
			q.work.Wait()
		}
		if q.closed {
			return turn{}, false
		}
		tn, ok := q.takeNext(time.Now())
		if q.hungry() {
			signal(q.spread.hunger)
		}
		if ok {
			return tn, true
		}
	}
}

// takeNext begins a run of what is ready first. false: it has to wait, or has nothing to do.
func (q *queue) takeNext(now time.Time) (turn, bool) {
	next := q.ready.pop()
	if next.batch == nil {
		return q.takeCell(next.entry, now)
	}
	batch := q.takeBatch(next.batch, now)
	if len(batch) == 0 {
		return turn{}, false
	}
	tn := batch[0]
	tn.batch = batch
	return tn, true
}

// takeCell begins a run for one cell. false: it has to wait, or has nothing to do.
func (q *queue) takeCell(e *entry, now time.Time) (turn, bool) {
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
	case blocked && e.column.lanes[i].slots() > 0:
		q.retries.blocked.push(e)
		q.unblock(e.column) // it may have been let in for the slot that it leaves
	case blocked:
		e.column.lanes[i].blocked.push(e)
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
	return turn{}, false
}

// begin begins task i of an entry. The first turn of a run takes its slot.
func (q *queue) begin(e *entry, i int, slot *slot) turn {
	t, l := &e.tasks[i], e.column.lanes[i]
	t.due, t.failed = time.Time{}, false
	l.occupy(t)
	e.state, e.turn = stateRunning, i
	if slot.turns == 0 {
		l.active++
	}
	slot.turns++
	l.running++
	q.running++
	q.started++
	return turn{entry: e, lane: l, newest: e.newest, attempt: t.attempts + 1, stale: e.class != dispatched, slot: slot}
}

// leave takes a turn out of its slot. The last one gives the slot back.
func (q *queue) leave(tn turn) {
	q.running--
	tn.lane.running--
	if tn.slot.turns--; tn.slot.turns > 0 {
		return
	}
	tn.lane.active--
	if tn.slot.retry {
		q.retries.active--
	}
}

// unblock readies cells of the column that wait for a slot of one of its observers, or for others
// that are quiet by now. Every run that ends calls it for all observers of the column, because a
// cell that was let in may have found something else to do.
func (q *queue) unblock(c *column) {
	now := time.Now()
	for _, l := range c.lanes {
		q.admit(&l.blocked, l.slots(), now)
		q.release(l, now)
		q.offerBatch(l, now)
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

// finish ends a turn: the cell is done, has another turn, waits, or is parked.
func (q *queue) finish(tn turn, out outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, now := tn.entry, time.Now()
	q.leave(tn)
	defer q.unblockRetries()
	if q.removed(tn, out) {
		out = outcome{blameless: true}
	}
	if !out.counted {
		tn.lane.count(out)
	}
	q.unblock(e.column)
	t := &e.tasks[e.turn]
	switch {
	case out.dropped:
	case out.start != 0:
		e.done(t, out)
		q.spread.failing = 0
		if out.finished != 0 {
			q.finished.Add(cellKey{e.column, e.row}, out.finished)
		}
	default:
		q.fail(tn, out, now)
	}
	if q.closed || out.dropped || e.class == waiting && q.counts[waiting] > q.limits[waiting] {
		q.forget(e)
		return
	}
	q.schedule(e, now)
}

// count tells congestion how a transaction ended.
func (l *lane) count(out outcome) {
	switch {
	case out.contended:
		l.congestion.conflicted()
	case out.committed:
		l.congestion.committed()
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
func (q *queue) fail(tn turn, out outcome, now time.Time) {
	e := tn.entry
	t := &e.tasks[e.turn]
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
	if tn.slot.turns == 0 && !out.snoozed && !out.conflict && !out.alone { // once for each run
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
		t.reset(t.ran, tn.newest, t.due)
		q.sequence++
		e.asOf = q.sequence
	case out.conflict:
		t.due = now.Add(q.conflict.pause(t.failures))
	default:
		t.due = now.Add(q.failure.pause(t.failures))
	}
}

// sharedPause is the pause after another failure of turns that the store is to blame for.
func (q *queue) sharedPause(turns []turn) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := 0
	for _, tn := range turns {
		most = max(most, tn.entry.tasks[tn.entry.turn].failures)
	}
	return q.failure.pause(most + 1)
}

// lastOf reports whether tn's observer, which has run at start, was the last of the cell's with
// work to do, and if so, up to when all of them are done.
func (q *queue) lastOf(tn turn, start tso.Timestamp) (upTo tso.Timestamp, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	upTo = start
	for i, t := range tn.entry.tasks {
		switch {
		case i == tn.entry.turn:
		case t.ran < tn.newest:
			return 0, false
		default:
			upTo = min(upTo, t.ran)
		}
	}
	return upTo, true
}
