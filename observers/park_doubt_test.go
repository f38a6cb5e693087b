package observers_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// soonIdle is WaitIdle with a deadline: the tests check that it does not wait.
func (e *env) soonIdle(w *observers.Worker) error {
	ctx, cancel := context.WithTimeout(e.ctx, 5*time.Second)
	defer cancel()
	return w.WaitIdle(ctx)
}

// TestWaitIdleOfAnIdleWorkerPassesOverWhatIsParked: some worker has to run, not necessarily the one
// that waits; parked cells do not count.
func TestWaitIdleOfAnIdleWorkerPassesOverWhatIsParked(t *testing.T) {
	eachColumn(t, func(t *testing.T, by finding, column string) {
		e := newParkEnv(t, by)
		w, _ := e.start(e.client, e.registry, parkSoon)
		e.change(column, "1")
		e.idle(w)
		other, err := observers.NewWorker(e.NewClient(), e.registry, parkSoon)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.soonIdle(other); err != nil {
			t.Fatalf("the only notification is parked: %v", err)
		}
	})
}

// TestWaitIdleWaitsForAParkedCellOfAnotherWorkersColumn: the worker takes one column, and what is
// parked is in the other.
func TestWaitIdleWaitsForAParkedCellOfAnotherWorkersColumn(t *testing.T) {
	t.Parallel()
	e := newParkEnv(t, byJournal)
	w, _ := e.start(e.client, e.registry, parkSoon)
	e.change("in", "1")
	e.idle(w)
	cfg := parkSoon
	cfg.Columns = []observers.Column{{Table: "t", Name: "w"}}
	other, _ := e.start(e.NewClient(), e.registry, cfg)
	if err := e.soonIdle(other); err != nil {
		t.Fatalf("the only notification is parked: %v", err)
	}
}

// threeObservers are one that succeeds and two that fail, on the column "in".
func threeObservers(j *journal, broken *atomic.Bool) *observers.Registry {
	r := observers.NewRegistry()
	r.Observe("good", "t", "in", j.observer("good"))
	for _, name := range []string{"a", "b"} {
		r.Observe(name, "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			j.add(name, ch)
			if broken.Load() {
				return errors.New("poison")
			}
			return nil
		})
	}
	return r
}

// TestRetryOfOneRunsTheOtherParkedObserver: nobody has retried b, and the cell has not changed.
func TestRetryOfOneRunsTheOtherParkedObserver(t *testing.T) {
	t.Parallel()
	e, j := newEnv(t, table()), newJournal()
	var broken atomic.Bool
	broken.Store(true)
	w, _ := e.start(e.client, threeObservers(j, &broken), parkSoon)
	e.set(e.client, "r", "in", "1")
	e.idle(w)
	if p := e.parked(); len(p) != 2 || j.count("a") != 3 || j.count("b") != 3 || j.count("good") != 1 {
		t.Fatalf("parked %+v", p)
	}
	if err := observers.Retry(e.ctx, e.client, e.parked()[0]); err != nil { // a
		t.Fatal(err)
	}
	e.idle(w)
	if j.count("a") != 6 || j.count("good") != 1 {
		t.Fatalf("a ran %d times, good %d times", j.count("a"), j.count("good"))
	}
	if j.count("b") != 3 {
		t.Errorf("b was run %d times more although it was neither retried nor has the cell changed", j.count("b")-3)
	}
}

// TestLateParkRequestUndoesADrop: a late duplicate of the request that parks lands after the drop,
// in the same cell.
func TestLateParkRequestUndoesADrop(t *testing.T) {
	eachColumn(t, func(t *testing.T, by finding, column string) {
		e := newParkEnv(t, by)
		c := e.NewClient()
		hold := percolatortest.NewHold()
		e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.MutateRows && r.Table == "t" && r.Sets("notify") && e.bad.Load() >= 3 {
				return hold.Copy()
			}
			return percolatortest.Pass
		})
		w, stop := e.start(c, e.registry, parkSoon)
		e.change(column, "1")
		e.until("the cell is parked", func() bool { return len(e.parked()) == 1 })
		e.idle(w)
		stop()
		if err := observers.Drop(e.ctx, e.client, e.parked()[0]); err != nil {
			t.Fatal(err)
		}
		if p := e.parked(); len(p) != 0 {
			t.Fatalf("parked %+v", p)
		}
		hold.Release()
		if p := e.parked(); len(p) != 0 {
			t.Errorf("it was dropped, and is parked again: %+v", p)
		}
	})
}

// TestAttemptsAreCountedAcrossChanges: a new change gets all of Config.MaxAttempts ("after how many
// attempts at a change a cell is parked"), even while the cell waits because it failed for an
// earlier one.
func TestAttemptsAreCountedAcrossChanges(t *testing.T) {
	t.Parallel()
	e := newParkEnv(t, byJournal)
	cfg := parkSoon
	cfg.MinBackoff, cfg.MaxBackoff = 200*time.Millisecond, 200*time.Millisecond
	var second atomic.Int64
	r := observers.NewRegistry()
	calls := make(chan string, 100)
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		if string(ch.Value) == "2" {
			second.Add(1)
		}
		calls <- string(ch.Value)
		return errors.New("poison")
	})
	cfg.Columns = []observers.Column{{Table: "t", Name: "in"}}
	w, _ := e.start(e.client, r, cfg)
	e.change("in", "1")
	<-calls
	<-calls // two of three
	e.change("in", "2")
	e.idle(w)
	if p := e.parked(); len(p) != 1 {
		t.Fatalf("parked %+v", p)
	}
	if n := second.Load(); n < 3 {
		t.Errorf("parked after %d attempts at the change, want 3", n)
	}
}

// TestRetryOfACellThatIsNotifiedInTheFuture: a retry takes effect despite a notification with a
// timestamp in the future (a stranger wrote it, or the store was restored under a younger oracle).
func TestRetryOfACellThatIsNotifiedInTheFuture(t *testing.T) {
	t.Parallel()
	e := newParkEnv(t, byScans)
	first := e.set(e.client, "r", "in", "1")
	e.plant("r", "in", int64(first)+1<<40, nil)
	e.start(e.client, e.registry, parkSoon)
	e.until("the cell is parked", func() bool { return len(e.parked()) == 1 && e.parked()[0].Through > first })
	e.broken.Store(false)
	e.retryParked()
	e.until("the retry is run", func() bool { return e.get("r", "out") == "1 false" })
}

// TestReasonOfManyBytesIsCutToNothing: characters of three bytes.
func TestReasonOfManyBytesIsCutToNothing(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", func(context.Context, *percolator.Txn, observers.Change) error {
		return errors.New(strings.Repeat("漢", 1000))
	})
	w, _ := e.start(e.client, r, observers.Config{MaxAttempts: 1})
	e.set(e.client, "r", "in", "1")
	e.idle(w)
	if p := e.parked(); len(p) != 1 || len(p[0].Reason) < model.MaxParkedReason-4 {
		t.Fatalf("a reason of 3,000 bytes was cut to %d: %q", len(p[0].Reason), p[0].Reason)
	}
}

// TestRetryWaitsForAnotherObserverOfTheCell: the worker that parked the cell still has it in its
// queue, because another observer of it has postponed the change. Observers of one column do not
// hold each other up.
func TestRetryWaitsForAnotherObserverOfTheCell(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
		var broken atomic.Bool
		broken.Store(true)
		r.Observe("a", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			if broken.Load() {
				return errors.New("poison")
			}
			j.add("a", ch)
			return nil
		})
		r.Observe("b", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			j.add("b", ch)
			return observers.Snooze(time.Hour)
		})
		w, _ := e.start(e.client, r, parkSoon)
		e.set(e.client, "r", "in", "1")
		e.await(j, "b", 1)
		e.until("a is parked", func() bool { return len(e.parked()) == 1 })
		broken.Store(false)
		if err := observers.Retry(e.ctx, e.client, e.parked()[0]); err != nil {
			t.Fatal(err)
		}
		e.until("a runs that was retried, although b puts the change off", func() bool { // for an hour
			e.searched(w, 1)
			return j.count("a") > 0
		})
	})
}

// TestLateParkRequestAfterARetryIsListed: a late duplicate of the request that parks lands after
// the retry, and the cell is parked once more. It must not be so unseen.
func TestLateParkRequestAfterARetryIsListed(t *testing.T) {
	eachColumn(t, func(t *testing.T, by finding, column string) {
		e := newParkEnv(t, by)
		c := e.NewClient()
		hold := percolatortest.NewHold()
		e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.MutateRows && r.Table == "t" && r.Sets("notify") && e.bad.Load() >= 3 {
				return hold.Copy()
			}
			return percolatortest.Pass
		})
		w, stop := e.start(c, e.registry, parkSoon)
		e.change(column, "1")
		e.until("the cell is parked", func() bool { return len(e.parked()) == 1 })
		e.idle(w)
		stop()
		if err := observers.Retry(e.ctx, e.client, e.parked()[0]); err != nil {
			t.Fatal(err)
		}
		if p := e.parked(); len(p) != 0 {
			t.Fatalf("parked %+v", p)
		}
		hold.Release()
		e.until("it is listed once more", func() bool { return len(e.parked()) == 1 })
		e.broken.Store(false)
		if err := observers.Retry(e.ctx, e.client, e.parked()[0]); err != nil {
			t.Fatal(err)
		}
		w, _ = e.start(e.NewClient(), e.registry, parkSoon)
		e.idle(w)
		e.finished()
	})
}

// TestListsOfParkedCellsReadNoRange: with a journal the list costs what is parked, not the table.
func TestListsOfParkedCellsReadNoRange(t *testing.T) {
	t.Parallel()
	e := newParkEnv(t, byJournal)
	w, _ := e.start(e.NewClient(), e.registry, parkSoon)
	e.change("in", "1")
	e.change("w", "1")
	e.idle(w)
	e.FaultsOf(e.client).Forget()
	if p := e.parked(); len(p) != 2 || p[0].Cell != cell("r", "in") || p[1].Cell != cell("r", "w") {
		t.Errorf("parked %+v", p)
	}
	reads := 0
	for _, r := range e.FaultsOf(e.client).Requests() {
		if r.Method == percolatortest.ReadRows && r.Table == "t" {
			if reads++; r.Rows != 1 {
				t.Errorf("a list of two cells in one row sent %v", r)
			}
		}
	}
	if reads != 1 {
		t.Errorf("%d reads of the table", reads)
	}
}
