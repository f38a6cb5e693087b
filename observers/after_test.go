package observers

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// after is an observer that waits for others.
func after(limit time.Duration, names ...string) options {
	return with(options{}, After(limit, names...))
}

func with(o options, opts ...Option) options {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// chain is a queue whose observers have a column each.
type chain struct {
	*fixture
	columns []*column
}

func newChain(t *testing.T, cfg Config, observers ...options) *chain {
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c := &chain{}
	var runners []*runner
	for i, o := range observers {
		rn := &runner{observer: &observer{name: fmt.Sprint("o", i), options: o}}
		runners = append(runners, rn)
		c.columns = append(c.columns, &column{Column: Column{"t", fmt.Sprint(i)}, runners: []*runner{rn}, cells: map[string]*entry{}})
	}
	connect(runners)
	c.fixture = &fixture{T: t, q: newQueue(cfg, runners), col: c.columns[0]}
	c.q.open()
	t.Cleanup(c.q.close)
	return c
}

// notify queues a new cell of column i.
func (c *chain) notify(i int, row string, ts tso.Timestamp) {
	c.Helper()
	if v, _ := c.q.offer(c.columns[i], row, ts, dispatched, nil); v != accepted {
		c.Fatalf("offer(%d, %q) = %v", i, row, v)
	}
}

func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Parallel()
	percolatortest.Bubble(t, f)
}

func TestAfterWaitsUntilOthersAreQuiet(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{}, options{}, options{collapse: time.Second}, batchOf(2, 2*time.Second), after(time.Hour, "o0", "o1", "o2"))
		c.notify(0, "a", 10)
		c.notify(3, "x", 11)
		a := c.take("a", "o0")
		c.none() // a runs
		c.notify(1, "b", 12)
		c.q.finish(a, done)
		c.none() // b collapses
		c.pass(time.Second)
		c.notify(2, "c", 13)
		c.q.finish(c.take("b", "o1"), done)
		c.pass(time.Second)
		c.none() // c waits for a batch
		c.sizes(2, 0)
		c.pass(time.Second)
		batch := c.takeBatch("c")
		c.none()
		c.finishAll(batch, done)
		c.q.finish(c.take("x", "o3"), done)
		c.sizes(0, 0)
	})
}

func TestAfterEndsAtItsLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, down := range map[string]options{
			"a cell": after(time.Minute, "o0"), "a batch": with(batchOf(3, 0), After(time.Minute, "o0")),
			"collapse": with(after(time.Minute, "o0"), Collapse(time.Second)),
		} {
			c := newChain(t, Config{}, options{}, down)
			c.notify(0, "a", 10)
			c.take("a", "o0") // and hangs
			c.notify(1, "x", 11)
			c.pass(down.collapse + time.Minute - time.Nanosecond)
			if c.q.readyNow() != 0 {
				t.Errorf("%s: too early", name)
			}
			c.pass(time.Nanosecond)
			if c.q.readyNow() != 1 {
				t.Errorf("%s: not at the limit", name)
			}
		}
	})
}

// At the limit of its first cell a batch takes along the others that wait: a run for each at its
// own limit would be more work.
func TestBatchAtTheLimitTakesHeldCellsAlong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{}, options{}, with(batchOf(3, 0), After(time.Minute, "o0")))
		c.notify(0, "a", 10)
		c.take("a", "o0")
		for _, row := range []string{"1", "2", "3", "4"} {
			c.notify(1, row, 11)
			c.pass(time.Second)
		}
		c.pass(time.Minute - 4*time.Second)
		c.finishAll(c.takeBatch("1", "2", "3"), done)
		c.none()
		c.pass(3 * time.Second)
		c.takeBatch("4")
	})
}

func TestAfterDoesNotWaitForWhatPausesOrIsParked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, out := range map[string]outcome{
			"failed": {state: runFailed, err: errTest}, "snoozed": {state: runSnoozed, due: time.Now().Add(time.Minute)},
			"parked": {state: runParked, err: errTest}, "inconclusive": {state: runInconclusive, err: errTest},
			"conflict": {state: runConflicted, err: errTest},
		} {
			c := newChain(t, Config{MinBackoff: time.Minute, MaxBackoff: 10 * time.Minute}, options{}, after(time.Hour, "o0"))
			c.notify(0, "a", 10)
			c.notify(1, "x", 11)
			bad := c.take("a", "o0")
			c.none()
			c.q.finish(bad, out)
			c.q.finish(c.take("x", "o1"), done)
			c.pass(time.Minute)
			if name == "parked" {
				continue
			}
			c.notify(1, "y", 30)
			bad = c.take("a", "o0")
			if name != "snoozed" && bad.number == 1 != (name == "inconclusive") {
				t.Errorf("%s: attempt %d", name, bad.number)
			}
			c.notify(1, "z", 31)
			if j, ok := c.q.tryTake(); ok { // y was ready before
				t.Errorf("%s: %s started while an attempt at a was in flight", name, j.entry.row)
			}
			c.q.finish(bad, outcome{state: runAcknowledged, through: 40, finished: 40})
			if y, z := c.takeAny(), c.takeAny(); y.runner.name != "o1" || z.runner.name != "o1" {
				t.Errorf("%s: took %s and %s", name, y.entry.row, z.entry.row)
			}
		}
	})
}

// A further change of a cell reaches the observer that the others wait for, although the cell waits
// itself.
func TestAfterOnOneColumn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, second := range map[string]options{"cells": {}, "batches": batchOf(10, 0)} {
			f := newFixture(t, Config{}, options{}, with(second, After(time.Hour, "o0")))
			f.offerAll("ab", accepted)
			a, b := f.take("a", "o0"), f.take("b", "o0")
			f.q.finish(a, outcome{state: runAcknowledged, through: 20})
			f.none() // b runs
			f.offer("a", 30, found, joined)
			f.q.finish(f.take("a", "o0"), outcome{state: runAcknowledged, through: 40})
			f.none()
			f.q.finish(b, outcome{state: runAcknowledged, through: 21})
			if name == "batches" {
				f.takeBatch("a", "b")
				continue
			}
			first, second := f.takeAny(), f.takeAny()
			if got := first.entry.row + second.entry.row; got != "ab" && got != "ba" || first.runner.name != "o1" || second.runner.name != "o1" {
				t.Errorf("took %s of %s and %s", got, first.runner.name, second.runner.name)
			}
		}
	})
}

// A cell that is ready waits again if something stirs upstream before a goroutine takes it.
func TestAfterLooksAgainWhenACellIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, down := range map[string]options{"cells": {}, "batches": batchOf(10, 0)} {
			c := newChain(t, Config{}, options{collapse: time.Second}, with(down, After(time.Hour, "o0")))
			c.notify(1, "x", 10)
			c.notify(0, "a", 11)
			if j, ok := c.q.tryTake(); ok {
				t.Errorf("%s: took %s", name, j.entry.row)
			}
			c.pass(time.Second)
			c.q.finish(c.take("a", "o0"), done)
			if j := c.takeAny(); j.entry.row != "x" {
				t.Errorf("%s: took %s", name, j.entry.row)
			}
		}
	})
}

func TestAfterInACycle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{}, after(time.Minute, "o1"), after(time.Minute, "o0"), after(time.Minute, "o2"))
		for i := range 3 {
			c.notify(i, "x", 10)
		}
		if j, ok := c.q.tryTake(); ok {
			t.Errorf("took %s", j.runner.name)
		}
		c.pass(time.Minute)
		for range 3 {
			c.q.finish(c.takeAny(), done)
		}
		c.sizes(0, 0)
	})
}

// Cells that waited begin as slots allow, and all of them do; healthy ones do not wait for a failed
// one that waits for a slot of those for retries.
func TestAfterWithFewSlots(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{Concurrency: 2, MinBackoff: time.Second, MaxBackoff: time.Second}, options{}, with(after(time.Hour, "o0"), MaxConcurrent(1)), options{})
		c.notify(1, "failed", 9)
		c.q.finish(c.take("failed", "o1"), outcome{state: runFailed, err: errTest})
		c.notify(2, "retried", 9)
		c.q.finish(c.take("retried", "o2"), outcome{state: runFailed, err: errTest})
		c.notify(0, "a", 10)
		a := c.take("a", "o0")
		c.pass(time.Second)
		retried := c.take("retried", "o2") // the only slot of those
		for i := range 4 {
			c.notify(1, fmt.Sprint(i), 11)
		}
		c.none()
		c.q.finish(a, done)
		if n := c.q.readyNow(); n != 1 {
			t.Errorf("%d cells are ready for one slot", n)
		}
		for i := range 4 {
			j, ok := c.q.tryTake()
			if !ok || j.entry.row != fmt.Sprint(i) {
				t.Fatalf("took %+v (%v), want %d", j.entry, ok, i)
			}
			if other, ok := c.q.tryTake(); ok {
				t.Fatalf("%s at the same time", other.entry.row)
			}
			c.q.finish(j, done)
		}
		c.q.finish(retried, done)
		c.take("failed", "o1")
	})
}

func TestHeldCellsAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{QueueLength: 2}, options{}, after(time.Hour, "o0"))
		c.notify(0, "a", 10)
		a := c.take("a", "o0")
		c.notify(1, "x", 11)
		c.notify(1, "y", 11)
		c.sizes(2, 1)
		if v, _ := c.q.offer(c.columns[1], "z", 11, found, nil); v != crowded {
			t.Errorf("offer = %v", v)
		}
		c.notify(0, "b", 12) // what they wait for has room
		idle := make(chan struct{})
		go func() {
			_, _ = c.q.awaitEmpty(t.Context())
			close(idle)
		}()
		c.q.finish(a, done)
		c.q.finish(c.take("b", "o0"), done)
		c.q.finish(c.take("x", "o1"), done)
		synctest.Wait()
		select {
		case <-idle:
			t.Error("idle while y waits")
		default:
		}
		c.q.finish(c.take("y", "o1"), done)
		<-idle

		c.notify(0, "a", 30)
		a = c.take("a", "o0")
		c.notify(1, "x", 31)
		c.q.close()
		c.sizes(0, 1)
		c.q.finish(a, outcome{state: runAcknowledged, through: 40, finished: 40})
		c.sizes(0, 0)
	})
}

// After a repair the cells that the queue holds run again, and others wait for them.
func TestAfterARepair(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, options{}, after(time.Hour, "o0"), options{collapse: time.Minute})
		f.offer("r", 10, dispatched, accepted)
		f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 20})
		f.q.finish(f.take("r", "o1"), outcome{state: runAcknowledged, through: 21})
		f.none()
		f.q.forgetRuns(50, map[Column]*column{f.col.Column: f.col})
		f.offer("s", 55, dispatched, accepted)
		f.q.finish(f.take("s", "o0"), outcome{state: runAcknowledged, through: 60})
		f.none() // o0 has to run for r
		f.pass(time.Minute)
		f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 61})
		f.pass(0)
		for range 4 {
			j, ok := f.q.tryTake()
			if !ok || j.runner.name == "o0" {
				t.Fatalf("took %+v (%v)", j, ok)
			}
			f.q.finish(j, outcome{state: runAcknowledged, through: 62})
		}
		f.sizes(0, 0)
	})
}

func (f *fixture) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestSlowMachinesMakeNoMoreWork: many runs write to few cells, which are observed in turn. With
// After the second stage has as many runs if those of the first take 100 ms as if they take 1 ms.
// With a window of time it has more.
func TestSlowMachinesMakeNoMoreWork(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const cells, targets, concurrency = 200, 5, 4
		runs := func(took time.Duration, down options) (n int) {
			c := newChain(t, Config{Concurrency: concurrency}, options{}, down)
			clock := tso.Timestamp(100)
			var mu sync.Mutex
			tick := func() tso.Timestamp {
				mu.Lock()
				defer mu.Unlock()
				clock++
				return clock
			}
			for i := range cells {
				c.notify(0, fmt.Sprint(i), tick())
			}
			var workers sync.WaitGroup
			for range concurrency {
				workers.Go(func() {
					for {
						j, ok := c.q.takeJob()
						if !ok {
							return
						}
						start, pause := tick(), time.Millisecond
						if j.runner.name == "o0" {
							pause = took
						}
						time.Sleep(pause)
						if j.runner.name == "o0" {
							c.q.offer(c.columns[1], string('0'+j.entry.row[len(j.entry.row)-1]%targets), tick(), dispatched, nil)
						} else {
							mu.Lock()
							n++
							mu.Unlock()
						}
						c.q.finish(j, outcome{state: runCommitted, through: start})
					}
				})
			}
			if _, err := c.q.awaitEmpty(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.q.close()
			workers.Wait()
			return n
		}
		down := with(after(time.Hour, "o0"), HeadStart(time.Hour))
		fast, slow := runs(time.Millisecond, down), runs(100*time.Millisecond, down)
		if fast != targets || slow != targets {
			t.Errorf("After: %d runs for a fast machine, %d for a slow one, want %d", fast, slow, targets)
		}
		window := with(options{}, Collapse(100*time.Millisecond), HeadStart(time.Hour))
		if fast, slow = runs(time.Millisecond, window), runs(100*time.Millisecond, window); fast >= slow {
			t.Errorf("Collapse: %d and %d runs: the test shows nothing", fast, slow)
		}
		t.Logf("Collapse: %d runs for a fast machine, %d for a slow one; After: %d", fast, slow, targets)
	})
}

func TestAfterNamesObservers(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	r.Observe("down", "t", "d", nothing, After(time.Second, "up", "elsewhere"), After(time.Minute, "up", "up", "foreign"))
	r.Observe("up", "t", "u", nothing)
	if _, err := r.snapshot(); !errors.Is(err, percolator.ErrInvalidArgument) || !strings.Contains(err.Error(), `"foreign"`) {
		t.Errorf("an unknown name: %v", err)
	}
	r.Observe("foreign", "t", "f", nothing)
	list, err := r.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"d", "u", "f"}}}}
	cov, err := cover(schema, list, []Column{{"t", "d"}, {"t", "u"}})
	if err != nil || len(cov.runners) != 2 {
		t.Fatalf("%v, %v", cov.runners, err)
	}
	down, up := cov.runners[0], cov.runners[1]
	if len(down.awaits) != 1 || down.awaits[0] != up || len(up.awaitedBy) != 1 || len(down.awaitedBy)+len(up.awaits) != 0 || down.afterLimit != time.Minute {
		t.Errorf("%d and %d", len(down.awaits), len(up.awaitedBy))
	}
}

// A cell that the queue forgets keeps nobody waiting, and a queue that closes forgets all of them.
func TestAfterForgottenCells(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{QueueLength: 1, MinBackoff: time.Hour, MaxBackoff: time.Hour}, options{}, after(2*time.Hour, "o0"))
		c.notify(0, "a", 10)
		c.q.finish(c.take("a", "o0"), outcome{state: runFailed, err: errTest})
		c.notify(0, "b", 11)
		c.q.finish(c.take("b", "o0"), outcome{state: runFailed, err: errTest}) // too many that fail
		c.sizes(1, 0)
		if busy := c.columns[0].runners[0].busy; busy != 0 {
			t.Errorf("%d cells count", busy)
		}

		c = newChain(t, Config{}, batchOf(2, time.Hour), after(2*time.Hour, "o0"))
		c.notify(0, "a", 10)
		c.notify(1, "x", 11)
		c.q.close()
		c.sizes(0, 0)
	})
}

// The time for which a cell waits for others counts as one for which its batch waits for cells.
func TestBatchThatWasHeldBeginsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChain(t, Config{}, options{}, with(batchOf(10, 10*time.Second), After(time.Hour, "o0")))
		c.notify(0, "a", 10)
		a := c.take("a", "o0")
		c.notify(1, "x", 11)
		c.pass(9 * time.Second)
		c.notify(1, "y", 12)
		c.pass(time.Second)
		c.q.finish(a, done)
		c.takeBatch("x", "y")
	})
}

// What the queue learns of a cell from elsewhere counts at once, or when the cell changes.
func TestAfterWhatOthersDid(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, Config{MinBackoff: time.Minute, MaxBackoff: time.Minute}, options{}, after(time.Hour, "o0"))
		busy := func(want int) {
			t.Helper()
			if n := f.col.runners[0].busy; n != want {
				t.Errorf("%d cells count, want %d", n, want)
			}
		}
		f.offer("r", 10, found, accepted)
		busy(1)
		f.q.offer(f.col, "r", 10, found, &storedStates{f.q.asOf(), []observerState{{parked: 10}, {}}}) // by another worker
		busy(0)
		f.q.finish(f.take("r", "o1"), outcome{state: runAcknowledged, through: 15})
		f.offer("r", 20, found, accepted)
		f.q.finish(f.take("r", "o0"), outcome{state: runFailed, err: errTest})
		busy(0)
		f.q.finish(f.take("r", "o1"), outcome{state: runSnoozed, due: time.Now().Add(time.Hour)})
		f.q.offer(f.col, "r", 20, found, &storedStates{f.q.asOf(), []observerState{{ran: 25}, {}}}) // it has run elsewhere
		busy(0)
		f.offer("r", 30, found, joined) // and has not failed for this
		busy(1)
		f.take("r", "o0")
	})
}

// A cell that a repair makes due has been due since then.
func TestAfterARepairTheLimitBegins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, Config{}, options{}, after(time.Hour, "o0"), options{collapse: time.Minute})
		f.offer("r", 10, dispatched, accepted)
		f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 20})
		f.q.finish(f.take("r", "o1"), outcome{state: runAcknowledged, through: 21})
		f.q.forgetRuns(50, map[Column]*column{f.col.Column: f.col})
		f.offer("s", 55, dispatched, accepted)
		f.take("s", "o0") // and hangs
		f.pass(time.Minute)
		f.q.finish(f.take("r", "o0"), outcome{state: runAcknowledged, through: 61})
		f.q.finish(f.take("r", "o2"), outcome{state: runAcknowledged, through: 62})
		f.none()
		f.pass(time.Hour)
		f.take("r", "o1")
	})
}
