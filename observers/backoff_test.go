package observers

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

func TestPausesGrowUpToTheirMaximum(t *testing.T) {
	t.Parallel()
	b := backoff{10 * time.Millisecond, 5 * time.Second}
	for n := 1; n < 200; n++ {
		nominal := 5 * time.Second
		if n < 10 {
			nominal = min(nominal, 10*time.Millisecond<<(n-1))
		}
		for range 20 {
			if d := b.pause(n); d < nominal/2 || d > nominal {
				t.Fatalf("pause(%d) = %v, want %v to %v", n, d, nominal/2, nominal)
			}
		}
	}
}

// However long the pauses are, none overflows: a panic there would end the process.
func TestLongPauses(t *testing.T) {
	t.Parallel()
	for _, b := range []backoff{
		{17180 * time.Millisecond, time.Minute}, {time.Hour, time.Hour}, {1, math.MaxInt64 - 1}, {math.MaxInt64 - 1, math.MaxInt64 - 1}, {time.Second, 1 << 62},
	} {
		for n := 1; n < 200; n++ {
			if d := b.pause(n); d < b.initial/2 || d > b.limit {
				t.Fatalf("%v to %v: pause(%d) = %v", b.initial, b.limit, n, d)
			}
		}
	}
}

func TestLimitFallsWithConflictsAndRecovers(t *testing.T) {
	t.Parallel()
	c := newCongestion(32)
	for range 100 {
		c.committed()
	}
	if c.limit() != 32 {
		t.Fatalf("limit %d without conflicts", c.limit())
	}
	for range 7 {
		c.conflicted()
	}
	if n := c.limit(); n < 14 || n > 16 {
		t.Fatalf("limit %d after seven conflicts", n)
	}
	for range 1000 {
		c.conflicted()
	}
	if c.limit() != 1 {
		t.Fatalf("limit %d, must be one at least and at most", c.limit())
	}
	for range 600 { // about 32²/2
		c.committed()
	}
	if c.limit() != 32 {
		t.Fatalf("limit %d after it has recovered", c.limit())
	}
}

// At most two of four slots are for cells that have failed. The others wait without keeping
// anything else from its run, and come in the order in which they waited.
func TestQueueBoundsRetries(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{Concurrency: 4}, options{})
		failing := []string{"a", "b", "c", "d"}
		for i, row := range failing {
			f.offer(row, tso.Timestamp(10+i), dispatched, accepted)
		}
		var jobs []job
		for _, row := range failing {
			jobs = append(jobs, f.take(row, "o0")) // the first time, all of them have a slot
		}
		for i, j := range jobs {
			f.q.finish(j, outcome{state: runFailed, err: errTest})
			time.Sleep(time.Second)
			synctest.Wait()
			if n := f.q.readyNow(); n != i+1 {
				t.Fatalf("%d cells are ready", n)
			}
		}
		f.offer("healthy", 20, dispatched, accepted)
		a, b := f.take("a", "o0"), f.take("b", "o0")
		healthy, _ := f.q.takeJob() // c and d have no slot
		if healthy.entry.row != "healthy" {
			t.Fatalf("took %s", healthy.entry.row)
		}
		f.none()
		f.q.finish(healthy, outcome{state: runCommitted, through: 30, finished: 30})
		f.none()
		f.q.finish(a, outcome{state: runCommitted, through: 31, finished: 31})
		c := f.take("c", "o0")
		f.none()
		f.q.finish(b, outcome{state: runCommitted, through: 32, finished: 32})
		f.q.finish(c, outcome{state: runCommitted, through: 33, finished: 33})
		f.q.finish(f.take("d", "o0"), outcome{state: runCommitted, through: 34, finished: 34})
		f.sizes(0, 0)
	})
}

// A cell with a failed observer that has no slot runs its other observer; the slot that it leaves
// goes to the next one.
func TestQueueRunsTheOtherObserverOfACellThatWaits(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := newFixture(t, Config{Concurrency: 2}, options{}, options{})
		f.offer("a", 10, dispatched, accepted)
		f.q.finish(f.take("a", "o0"), outcome{state: runFailed, err: errTest})
		f.offer("b", 11, dispatched, accepted)
		a := f.take("a", "o1") // while o0 waits for its pause to end
		f.q.finish(f.take("b", "o0"), outcome{state: runFailed, err: errTest})
		f.q.finish(f.take("b", "o1"), outcome{state: runAcknowledged, through: 15})
		f.q.finish(a, outcome{state: runAcknowledged, through: 16})
		time.Sleep(time.Second)
		synctest.Wait()
		first, _ := f.q.takeJob() // the one slot for cells that have failed
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
		f.offer(first.entry.row, 20, dispatched, joined) // o1 has work again, on the cell that runs
		f.offer("healthy", 21, dispatched, accepted)
		healthy := <-got
		if healthy.entry.row != "healthy" || healthy.runner.name != "o0" {
			t.Fatalf("took %s of %s", healthy.entry.row, healthy.runner.name)
		}
		f.q.finish(first, outcome{state: runFailed, err: errTest})
		second, third := f.takeAny(), f.takeAny()
		if second.entry.row == third.entry.row || second.retry == third.retry {
			t.Fatalf("took %s of %s and %s of %s", second.entry.row, second.runner.name, third.entry.row, third.runner.name)
		}
		f.q.finish(second, outcome{state: runAcknowledged, through: 31})
		f.q.finish(third, outcome{state: runAcknowledged, through: 32})
	})
}

// takeAny takes the job that comes next, whichever it is.
func (f *fixture) takeAny() job {
	f.Helper()
	if f.q.readyNow() == 0 {
		f.Fatal("nothing is ready")
	}
	j, _ := f.q.takeJob()
	return j
}
