package observers

import (
	"math/bits"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// run calls one observer for one cell, or for the cells of a batch, in as many attempts as it
// takes. It holds one of the observer's slots from take until its last job has finished. Each
// attempt is one transaction.
type run struct {
	runner *runner
	jobs   []job // in row order; never empty
	retry  bool  // its cell has failed before, so that the run holds a slot of queue.retries, too
	alone  bool  // its cell has failed by itself, so that the run joins no group
	open   int   // jobs that have not finished; queue.mu guards it

	// What follows belongs to the goroutine that took the run.

	attempt  []job   // the jobs of the attempt in flight
	attempts [][]job // those of the attempts that are left, the next one last
	divided  bool    // an attempt has failed, and its jobs were divided among further ones
	until    time.Time
	at       *inFlight // of that goroutine
	grouped  bool      // its transaction has begun with others,
	shared   bool      // and has committed with others
}

// job is one cell of a run: the task that runs, as it was when the run started.
type job struct {
	*run
	entry   *entry
	newest  tso.Timestamp // the newest notification
	number  int           // of the attempt at this change, from 1
	recheck bool          // another worker may have handled the notification since
}

// take waits for a run. It returns false once the queue is closed.
func (q *queue) take() (*run, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for q.ready.len() == 0 && q.phase != queueClosed {
			q.work.Wait()
		}
		if q.phase == queueClosed {
			return nil, false
		}
		r := q.takeNext(time.Now())
		if q.hasIdleSlots() {
			signal(q.handOver.idle)
		}
		if r != nil {
			return r, true
		}
	}
}

// takeNext starts a run of what is ready first. nil: it has to wait, or has nothing to do.
func (q *queue) takeNext(now time.Time) (r *run) {
	if next := q.ready.pop(); next.batch != nil {
		r = q.takeBatch(next.batch, now)
	} else {
		r = q.takeCell(next.entry, now)
	}
	if r != nil {
		// Each attempt that holds one hanging cell may take all of its time, and one more.
		timeouts := bits.Len(uint(len(r.jobs))) + 1
		r.attempts, r.until = [][]job{r.jobs}, now.Add(time.Duration(timeouts)*r.runner.timeout)
	}
	return r
}

// takeCell starts a run for one cell. nil: it has to wait, or has nothing to do.
func (q *queue) takeCell(e *entry, now time.Time) *run {
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
		r := &run{runner: e.column.runners[i], retry: e.tasks[i].attempts > 0, alone: e.tasks[i].alone}
		if r.retry {
			q.retries.active++
		}
		q.unblockRetries()
		q.delay.note(now.Sub(e.readied), now)
		q.startJob(r, e, i)
		return r
	}
	return nil
}

// startJob adds task i of an entry to a run. The first job takes the run's slot.
func (q *queue) startJob(r *run, e *entry, i int) {
	t, rn := &e.tasks[i], r.runner
	t.due = time.Time{}
	rn.occupy(t)
	e.state, e.running = stateRunning, i
	if r.open == 0 {
		rn.active++
	}
	r.open++
	rn.running++
	q.running++
	q.started++
	r.jobs = append(r.jobs, job{run: r, entry: e, newest: e.newest, number: t.attempts + 1, recheck: e.class != dispatched})
}

// leave ends a job. The last one of its run gives the slot back.
func (q *queue) leave(j job) {
	q.running--
	j.runner.running--
	if j.open--; j.open > 0 {
		return
	}
	j.runner.active--
	if j.retry {
		q.retries.active--
	}
}

// unblock readies cells of the column that wait for a slot of one of its observers, or for others
// that are idle by now. Every run that ends calls it for all observers of the column, because a
// cell that was let in may have found something else to do.
func (q *queue) unblock(c *column) {
	now := time.Now()
	for _, rn := range c.runners {
		q.admit(&rn.blocked, rn.slots(), now)
		q.release(rn, now)
		q.readyBatch(rn, now)
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
