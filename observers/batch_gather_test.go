package observers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// batchOf is an observer of batches.
func batchOf(cells int, wait time.Duration) options {
	return options{maxCells: cells, maxWait: wait, timeout: time.Minute}
}

// takeBatch takes a batch that must be there already, and returns its jobs.
func (f *fixture) takeBatch(rows ...string) []job {
	f.Helper()
	if f.q.readyNow() == 0 {
		f.Fatalf("nothing is ready, want a batch of %v", rows)
	}
	j, ok := f.q.takeJob()
	var got []string
	for _, t := range j.jobs {
		got = append(got, t.entry.row)
	}
	if !ok || !slices.Equal(got, rows) {
		f.Fatalf("took %v (%v), want %v", got, ok, rows)
	}
	return j.jobs
}

func (f *fixture) offerAll(rows string, want verdict) {
	f.Helper()
	for _, row := range strings.Split(rows, "") {
		f.offer(row, 10, found, want)
	}
}

func (f *fixture) finishAll(jobs []job, out outcome) {
	for _, j := range jobs {
		f.q.finish(j, out)
	}
}

var done = outcome{state: runCommitted, through: 20, finished: 20}

func TestBatchTakesWhatIsReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{}, batchOf(3, 0))
	f.offerAll("cbeda", accepted)
	first := f.takeBatch("b", "c", "e") // the earliest, in row order
	f.sizes(2, 3)
	second := f.takeBatch("a", "d")
	f.none()
	f.offerAll("a", known)
	f.finishAll(first, done)
	f.finishAll(second, done)
	f.none()
	f.sizes(0, 0)
	if active := f.col.runners[0].active + f.col.runners[0].running; active != 0 {
		t.Errorf("%d slots and cells are left", active)
	}
}

func TestBatchWaits(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, batchOf(3, time.Second))
		f.offer("a", 10, dispatched, accepted)
		time.Sleep(600 * time.Millisecond)
		f.offer("b", 10, dispatched, accepted)
		time.Sleep(399 * time.Millisecond)
		synctest.Wait()
		f.none() // neither full nor due
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		f.finishAll(f.takeBatch("a", "b"), done)

		f.offerAll("ab", finished) // at 10, which is done
		for _, row := range []string{"c", "d", "e", "f"} {
			f.offer(row, 30, found, accepted)
		}
		f.takeBatch("c", "d", "e") // full
		f.none()
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		f.takeBatch("f")
	})
}

func TestBatchBeginsAfterCollapse(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		o := batchOf(2, time.Second)
		o.collapse = 10 * time.Second
		f := newFixture(t, Config{}, o)
		f.offer("a", 10, found, accepted)
		time.Sleep(5 * time.Second)
		f.offer("a", 11, found, joined) // collapses
		time.Sleep(5*time.Second + 999*time.Millisecond)
		synctest.Wait()
		f.none()
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if batch := f.takeBatch("a"); batch[0].newest != 11 {
			t.Errorf("it runs for %d", batch[0].newest)
		}
	})
}

func TestMaxConcurrentCountsBatches(t *testing.T) {
	t.Parallel()
	o := batchOf(2, 0)
	o.concurrent = 1
	f := newFixture(t, Config{}, o)
	f.offerAll("abcd", accepted)
	first := f.takeBatch("a", "b")
	f.none()
	f.q.finish(first[0], done)
	f.none() // b still holds the slot
	f.q.finish(first[1], done)
	f.takeBatch("c", "d")
}

// A cell that has failed by itself runs by itself until it succeeds, in a slot for retries.
func TestFailedCellJoinsNoBatch(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{MaxBackoff: 10 * time.Millisecond}, batchOf(3, time.Hour))
		f.offerAll("abc", accepted)
		batch := f.takeBatch("a", "b", "c")
		f.finishAll(batch[1:], done)
		f.q.finish(batch[0], outcome{state: runFailed, err: errTest})
		for attempt := 2; attempt < 4; attempt++ {
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			j := f.take("a", "o0")
			if j.number != attempt || !j.retry || len(j.jobs) != 1 {
				t.Fatalf("job %+v", j)
			}
			f.q.finish(j, outcome{state: runFailed, err: errTest})
		}
		f.offer("a", 11, found, joined) // all attempts for a new change, but alone
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		j := f.take("a", "o0")
		if j.number != 1 || j.retry {
			t.Fatalf("job %+v", j)
		}
		f.q.finish(j, done)
		for _, row := range []string{"a", "b", "c"} {
			f.offer(row, 30, found, accepted)
		}
		f.takeBatch("a", "b", "c")
	})
}

// What is due together stays together: after a failure of the store, and after a snooze.
func TestBatchIsDueAsAWhole(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, batchOf(3, 0))
		f.offerAll("abc", accepted)
		for _, out := range []outcome{{state: runInconclusive, err: errTest}, {state: runSnoozed}} {
			out.due = time.Now().Add(time.Second)
			batch := f.takeBatch("a", "b", "c")
			for _, j := range batch {
				if j.number != 1 {
					t.Errorf("attempt %d", j.number)
				}
			}
			f.finishAll(batch, out)
			f.none()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		f.takeBatch("a", "b", "c")
	})
}

// An observer of single cells does not wait for the batches of another, and a cell has one run at a
// time.
func TestBatchBesideSingleCells(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, batchOf(10, time.Minute), options{})
		f.offerAll("ab", accepted)
		a, b := f.take("a", "o1"), f.take("b", "o1")
		f.none()
		f.q.finish(a, outcome{state: runAcknowledged, through: 20})
		f.q.finish(b, outcome{state: runAcknowledged, through: 20})
		f.none()
		time.Sleep(time.Minute)
		synctest.Wait()
		batch := f.takeBatch("a", "b")
		f.offer("a", 30, found, joined)
		f.none() // it runs in the batch
		f.q.finish(batch[0], outcome{state: runAcknowledged, through: 25})
		f.take("a", "o1")
	})
}

// What is found to be parked, or done, while it waits for its batch has no part in it.
func TestBatchLeavesOutWhatIsOver(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, batchOf(10, time.Minute))
		f.offerAll("abc", accepted)
		f.q.offer(f.col, "a", 10, found, &storedStates{f.q.asOf(), []observerState{{parked: 10}}})
		f.q.offer(f.col, "b", 10, found, &storedStates{f.q.asOf(), []observerState{{ran: 10}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		batch := f.takeBatch("c")
		f.sizes(0, 1)
		f.offer("a", 11, found, accepted)
		f.q.close()
		f.finishAll(batch, done)
		f.sizes(0, 0)
	})
}

// Conflicts of batches shrink the window as those of single runs do: once for each transaction.
func TestBatchCountsAsOneForCongestion(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Concurrency: 10}, batchOf(100, 0))
	for i := range 100 {
		f.offer(fmt.Sprint(i), tso.Timestamp(10+i), found, accepted)
	}
	r, _ := f.q.take()
	w := &Worker{queue: f.q}
	r.next()
	w.endAttempt(t.Context(), r, r.all(outcome{state: runConflicted, err: errTest, conflict: &percolator.ConflictError{}}))
	if window := f.col.runners[0].congestion.window; window != 9 {
		t.Errorf("the window is %v after one conflict", window)
	}
	if len(r.attempts) != 2 || len(r.attempts[0]) != 50 || len(r.attempts[1]) != 50 {
		t.Errorf("cut into %d attempts", len(r.attempts))
	}
}
