package observers

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// fixture is a queue with one column and observers of it.
type fixture struct {
	*testing.T
	q   *queue
	col *column
}

func newFixture(t *testing.T, cfg Config, observers ...options) *fixture {
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	col := &column{Column: Column{"t", "c"}, cells: map[string]*entry{}}
	for i, o := range observers {
		col.runners = append(col.runners, &runner{observer: &observer{name: fmt.Sprint("o", i), options: o}})
	}
	connect(col.runners)
	f := &fixture{T: t, q: newQueue(cfg, col.runners), col: col}
	f.q.open()
	t.Cleanup(f.q.close)
	return f
}

func (f *fixture) offer(row string, ts tso.Timestamp, how entryClass, want verdict) {
	f.Helper()
	if got, _ := f.q.offer(f.col, row, ts, how, nil); got != want {
		f.Fatalf("offer(%q, %d) = %v, want %v", row, ts, got, want)
	}
}

// take takes a job that must be there already.
func (f *fixture) take(row, observer string) job {
	f.Helper()
	if f.q.readyNow() == 0 {
		f.Fatalf("nothing is ready, want %s of %s", row, observer)
	}
	j, ok := f.q.takeJob()
	if !ok || j.entry.row != row || j.runner.name != observer {
		f.Fatalf("took %v of %v (%v), want %s of %s", j.entry.row, j.runner.name, ok, row, observer)
	}
	return j
}

func (f *fixture) none() {
	f.Helper()
	if n := f.q.readyNow(); n != 0 {
		f.Fatalf("%d cells are ready, want none", n)
	}
}

func (f *fixture) sizes(queued, running int) {
	f.Helper()
	if q, r := f.q.sizes(); q != queued || r != running {
		f.Fatalf("queued %d, running %d; want %d, %d", q, r, queued, running)
	}
}

// offer queues a notification of col in row at ts, as one of a class.
func (q *queue) offer(col *column, row string, ts tso.Timestamp, how entryClass, stored *storedStates) (v verdict, upTo tso.Timestamp) {
	from := fromSearch
	if how == dispatched {
		from = fromClient
	}
	return q.add(col, row, ts, arrival{from: from, stored: stored})
}

// takeJob is take for a single cell, or the first one of a batch.
func (q *queue) takeJob() (job, bool) {
	r, ok := q.take()
	if !ok {
		return job{}, false
	}
	return r.jobs[0], true
}

// end is finish for a run of one attempt.
func (f *fixture) end(j job, out outcome) {
	f.q.count(j.run, []outcome{out})
	f.q.finish(j, out)
}

func (q *queue) readyNow() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len()
}

var errTest = errors.New("observer failed")

func TestQueueHasOneEntryForEachCell(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, options{})
	f.offer("r", 10, dispatched, accepted)
	f.offer("r", 10, found, known)
	f.offer("r", 11, dispatched, joined)
	f.offer("s", 12, found, accepted)
	f.sizes(2, 0)
	j := f.take("r", "o0")
	if j.newest != 11 || j.number != 1 || j.recheck {
		t.Fatalf("job %+v", j)
	}
	f.q.finish(j, outcome{state: runAcknowledged, through: 20, finished: 20})
	if s := f.take("s", "o0"); !s.recheck {
		t.Fatal("a cell found by a scan may have been dealt with by others")
	}
	f.none()
}

func TestQueueRunsAgainForAChangeDuringTheRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, options{})
	f.offer("r", 10, dispatched, accepted)
	j := f.take("r", "o0")
	f.offer("r", 30, dispatched, joined)
	f.none() // never twice at once
	f.q.finish(j, outcome{state: runAcknowledged, through: 20, finished: 20})
	f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 40, finished: 40})
	f.none()
	f.sizes(0, 0)
}

func TestQueueDoesNotRunAgainForAChangeThatTheRunHasSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, options{})
	f.offer("r", 10, dispatched, accepted)
	j := f.take("r", "o0")
	f.offer("r", 15, dispatched, joined)
	f.q.finish(j, outcome{state: runAcknowledged, through: 20, finished: 20})
	f.none()
	f.sizes(0, 0)
	f.offer("r", 15, found, finished) // a page read earlier
	f.offer("r", 21, found, accepted)
}

func TestQueueDoesNotLoopOnATimestampFromTheFuture(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, options{})
	f.offer("r", 1000, found, accepted)
	f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 20, finished: 20})
	f.none()
	f.sizes(0, 0)
}

func TestQueueCollapses(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, options{collapse: time.Minute})
		f.offer("r", 10, dispatched, accepted)
		for ts := range tso.Timestamp(50) {
			time.Sleep(time.Second)
			f.offer("r", 11+ts, dispatched, joined)
			f.none()
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		synctest.Wait()
		f.none()
		time.Sleep(time.Nanosecond) // a minute after the first: joining does not postpone
		synctest.Wait()
		j := f.take("r", "o0")
		f.offer("r", 200, dispatched, joined)
		f.q.finish(j, outcome{state: runAcknowledged, through: 100})
		f.none() // at most one run within the minute
		time.Sleep(time.Minute)
		synctest.Wait()
		f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 300})
		f.sizes(0, 0)
	})
}

func TestQueueRunsObserversOneAfterTheOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, options{}, options{}, options{})
	f.offer("r", 10, dispatched, accepted)
	f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 20})
	f.q.finish(f.take("r", "o1"), outcome{state: runAcknowledged, through: 21})
	f.sizes(1, 0)
	f.q.finish(f.take("r", "o2"), outcome{state: runAcknowledged, through: 22, finished: 22})
	f.sizes(0, 0)
}

func TestQueueSkipsObserversThatAnotherWorkerRan(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, options{}, options{}, options{})
	f.offer("r", 10, dispatched, accepted)
	f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 20, finished: 20})
	f.none()
	f.sizes(0, 0)
}

func TestQueueParks(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, options{}, options{})
		f.offer("r", 10, dispatched, accepted)
		for attempt := 1; attempt <= 3; attempt++ {
			j := f.take("r", "o0")
			if j.number != attempt {
				t.Fatalf("attempt %d, want %d", j.number, attempt)
			}
			out := outcome{state: runFailed, err: errTest}
			if attempt == 3 {
				out.state = runParked
			}
			f.q.finish(j, out)
			if attempt == 1 { // the other observer is not held up
				f.q.finish(f.take("r", "o1"), outcome{state: runAcknowledged, through: 20})
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		f.none()
		f.sizes(0, 0)
		f.offer("r", 10, found, parked)
		f.none()
		f.offer("r", 30, found, accepted) // a newer change: both run
		f.sizes(1, 0)
		j := f.take("r", "o0")
		if j.number != 1 {
			t.Fatalf("attempt %d of a new change", j.number)
		}
		f.q.finish(j, outcome{state: runAcknowledged, through: 40})
		f.q.finish(f.take("r", "o1"), outcome{state: runAcknowledged, through: 41, finished: 41})
		f.sizes(0, 0)
	})
}

func TestQueueDoesNotParkForTheStoresFailures(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{MaxAttempts: 2}, options{})
		f.offer("r", 10, dispatched, accepted)
		for range 50 {
			j := f.take("r", "o0")
			if j.number != 1 {
				t.Fatalf("attempt %d", j.number)
			}
			f.q.finish(j, outcome{state: runInconclusive, err: errTest})
			f.none()
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		f.sizes(1, 0)
	})
}

func TestQueueBacksOff(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{MinBackoff: time.Second, MaxBackoff: 10 * time.Second, MaxAttempts: 7}, options{})
		f.offer("bad", 10, dispatched, accepted)
		for _, longest := range []time.Duration{1, 2, 4, 8, 10, 10} {
			longest *= time.Second
			f.q.finish(f.take("bad", "o0"), outcome{state: runFailed, err: errTest})
			time.Sleep(longest/2 - time.Nanosecond)
			synctest.Wait()
			f.none()
			f.offer("good", tso.Timestamp(100+longest), dispatched, accepted) // nobody waits for the bad one
			f.q.finish(f.take("good", "o0"), outcome{state: runAcknowledged, through: tso.Timestamp(100 + longest)})
			time.Sleep(longest/2 + time.Nanosecond)
			synctest.Wait()
		}
		j := f.take("bad", "o0")
		f.q.finish(j, outcome{state: runAcknowledged, through: 1 << 40})
		f.sizes(0, 0)
	})
}

func TestQueueLimitsAnObserver(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, options{concurrent: 1}, options{})
		for i, row := range []string{"a", "b", "c"} {
			f.offer(row, tso.Timestamp(10+i), dispatched, accepted)
		}
		a := f.take("a", "o0")
		b := f.take("b", "o1") // o0 has no slot, o1 has
		c := f.take("c", "o1")
		f.q.finish(b, outcome{state: runAcknowledged, through: 20})
		f.q.finish(c, outcome{state: runAcknowledged, through: 20})
		// b and c have only o0 left; a goroutine that wants work does not get them.
		got := make(chan job)
		go func() {
			j, _ := f.q.takeJob()
			got <- j
		}()
		synctest.Wait()
		select {
		case j := <-got:
			t.Fatalf("took %s of %s", j.entry.row, j.runner.name)
		default:
		}
		f.q.finish(a, outcome{state: runAcknowledged, through: 21, finished: 21})
		first := <-got
		if first.runner.name != "o0" || first.entry.row != "b" {
			t.Fatalf("took %s of %s", first.entry.row, first.runner.name)
		}
		f.none()
		f.q.finish(first, outcome{state: runAcknowledged, through: 22, finished: 22})
		f.q.finish(f.take("c", "o0"), outcome{state: runAcknowledged, through: 23, finished: 23})
		f.sizes(0, 0)
	})
}

func TestQueueThrottlesAnObserverThatConflicts(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{Concurrency: 4, MaxAttempts: 1000}, options{})
		f.offer("a", 10, dispatched, accepted)
		for range 20 {
			f.end(f.take("a", "o0"), outcome{state: runConflicted, err: errTest, conflict: &percolator.ConflictError{}})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		f.offer("b", 11, dispatched, accepted)
		a := f.take("a", "o0")
		taken := make(chan job)
		go func() {
			j, _ := f.q.takeJob()
			taken <- j
		}()
		synctest.Wait()
		select {
		case <-taken:
			t.Fatal("two at once, after twenty conflicts in a row")
		default:
		}
		f.end(a, outcome{state: runCommitted, through: 20, finished: 20})
		f.end(<-taken, outcome{state: runCommitted, through: 21, finished: 21})
		if n := f.col.runners[0].slots(); n < 2 {
			t.Fatalf("%d at once after two commits", n)
		}
	})
}

// TestQueueTakesInObserverStates: the stored observer states of a cell determine what runs on a
// worker that has none in memory.
func TestQueueTakesInObserverStates(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{MinBackoff: time.Hour, MaxBackoff: time.Hour}, options{}, options{})
	offer := func(row string, ts tso.Timestamp, want verdict, upTo tso.Timestamp, states ...observerState) {
		t.Helper()
		var stored *storedStates
		if states != nil {
			stored = &storedStates{f.q.asOf(), states}
		}
		if v, to := f.q.offer(f.col, row, ts, found, stored); v != want || to != upTo && want == finished {
			t.Fatalf("offer(%q, %d, %v) = %v up to %d, want %v up to %d", row, ts, states, v, to, want, upTo)
		}
	}
	offer("r", 10, parked, 0, observerState{parked: 10}, observerState{ran: 12})
	offer("r", 10, finished, 11, observerState{ran: 11, parked: 10}, observerState{ran: 12}) // dropped: it counts as having run
	f.none()
	offer("r", 10, accepted, 0, observerState{parked: 10}, observerState{}) // the other one has not run
	f.q.finish(f.take("r", "o1"), outcome{state: runAcknowledged, through: 20})
	f.sizes(0, 0)
	offer("r", 10, parked, 0) // remembered without the store
	offer("r", 11, accepted, 0, observerState{parked: 10}, observerState{ran: 20})
	f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 30, finished: 30})
	f.sizes(0, 0)

	// States read before the cell was parked here do not make it run again. Those read later do, if
	// the cell has none.
	f.offer("u", 10, dispatched, accepted)
	before := &storedStates{asOf: f.q.asOf()}
	f.q.finish(f.take("u", "o0"), outcome{state: runParked, err: errTest})
	f.q.finish(f.take("u", "o1"), outcome{state: runAcknowledged, through: 20})
	if v, _ := f.q.offer(f.col, "u", 10, found, before); v != parked {
		t.Fatalf("an old page: %v", v)
	}
	if v, _ := f.q.offer(f.col, "u", 10, found, &storedStates{asOf: f.q.asOf()}); v != accepted {
		t.Fatalf("a retried cell: %v", v)
	}
	f.q.finish(f.take("u", "o0"), outcome{state: runAcknowledged, through: 30, finished: 30})

	// Another worker parks a cell that fails here, too.
	offer("s", 10, accepted, 0)
	f.q.finish(f.take("s", "o0"), outcome{state: runFailed, err: errTest})
	f.q.finish(f.take("s", "o1"), outcome{state: runAcknowledged, through: 20})
	f.sizes(1, 0)
	offer("s", 10, known, 0, observerState{parked: 10}, observerState{})
	f.sizes(0, 0)
	offer("s", 10, parked, 0)

	// A page that was read before somebody retried the cell is late: the attempts go on.
	offer("v", 10, parked, 0, observerState{parked: 10}, observerState{ran: 10})
	before = &storedStates{f.q.asOf(), []observerState{{parked: 10}, {ran: 10}}}
	offer("v", 10, accepted, 0, observerState{}, observerState{ran: 10})
	f.q.finish(f.take("v", "o0"), outcome{state: runFailed, err: errTest})
	if v, _ := f.q.offer(f.col, "v", 10, found, before); v != known {
		t.Fatalf("an old page: %v", v)
	}
	if e := f.col.cells["v"]; e == nil || e.tasks[0].attempts != 1 {
		t.Fatalf("the entry is %+v, want one with 1 attempt", e)
	}
}

// TestQueueKeepsAChangeThatComesDuringTheLastAttempt: it gets new attempts, although the run is
// parked.
func TestQueueKeepsAChangeThatComesDuringTheLastAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, options{})
	f.offer("r", 10, dispatched, accepted)
	j := f.take("r", "o0")
	f.offer("r", 20, dispatched, joined)
	f.q.finish(j, outcome{state: runParked, err: errTest})
	if j = f.take("r", "o0"); j.number != 1 {
		t.Fatalf("attempt %d of a new change", j.number)
	}
}
