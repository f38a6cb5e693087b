package observers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// parkEnv is a table with an observed and a weak column, each with an observer that fails as long
// as it is broken and one that never does.
type parkEnv struct {
	*env
	registry *observers.Registry
	broken   atomic.Bool
	bad      atomic.Int64 // calls of the one that fails
	good     atomic.Int64
}

func newParkEnv(t *testing.T, by finding) *parkEnv {
	e := &parkEnv{env: newEnvOf(t, by, []percolator.Table{{Name: "t", Observed: []string{"in"}, Weak: []string{"w"}}}), registry: observers.NewRegistry()}
	e.broken.Store(true)
	for _, column := range []string{"in", "w"} {
		e.registry.Observe("good "+column, "t", column, func(context.Context, *percolator.Txn, observers.Change) error {
			e.good.Add(1)
			return nil
		})
		e.registry.Observe("bad "+column, "t", column, func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			e.bad.Add(1)
			if e.broken.Load() {
				return errors.New("poison")
			}
			return tx.Set(cell(ch.Cell.Row, "out"), fmt.Appendf(nil, "%s %v", ch.Value, ch.Deleted))
		})
	}
	return e
}

// change writes the observed column or notifies the weak one.
func (e *parkEnv) change(column, value string) {
	e.Helper()
	_, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		if column == "w" {
			return tx.Notify(cell("r", "w"))
		}
		return tx.Set(cell("r", "in"), []byte(value))
	})
	if err != nil {
		e.Fatal(err)
	}
}

func (e *parkEnv) calls(good, bad int64) {
	e.Helper()
	if g, b := e.good.Load(), e.bad.Load(); g != good || b != bad {
		e.Fatalf("the observers were called %d and %d times, want %d and %d", g, b, good, bad)
	}
}

var parkSoon = observers.Config{MaxAttempts: 3, MinBackoff: time.Millisecond, ScanInterval: time.Millisecond, DisableCollection: true}

// finished waits until nothing at all is left of the row's notification.
func (e *parkEnv) finished() {
	e.Helper()
	e.until("nothing is left of the notification", func() bool { return len(e.pending()) == 0 })
}

// eachColumn runs a test for the observed and for the weak column, both ways.
func eachColumn(t *testing.T, f func(t *testing.T, by finding, column string)) {
	t.Parallel()
	eachFinding(t, "", func(t *testing.T, by finding) {
		for _, column := range []string{"in", "w"} {
			t.Run(column, func(t *testing.T) {
				t.Parallel()
				percolatortest.Bubble(t, func(t *testing.T) { f(t, by, column) })
			})
		}
	})
}

// TestParkedOutlivesItsWorker: another worker, which knows only the stored observer states, runs
// neither the parked observer nor the one that is done, however often it meets the notification
// (I19).
func TestParkedOutlivesItsWorker(t *testing.T) {
	eachColumn(t, func(t *testing.T, by finding, column string) {
		e := newParkEnv(t, by)
		w, stop := e.start(e.client, e.registry, parkSoon)
		e.change(column, "1")
		e.idle(w)
		stop()
		e.calls(1, 3)
		p := e.parked()
		if len(p) != 1 || p[0].Observer != "bad "+column || p[0].Cell != cell("r", column) || p[0].Attempts != 3 ||
			!strings.Contains(p[0].Reason, "poison") || p[0].Since.IsZero() || p[0].Through == 0 {
			t.Fatalf("parked %+v", p)
		}
		w, stop = e.start(e.NewClient(), e.registry, parkSoon)
		e.idle(w)
		e.searched(w, 4)
		e.calls(1, 3)
		if s := w.Stats(); s.Attempts != 0 || s.Acknowledged != 0 {
			t.Fatalf("the other worker has looked at it: %+v", s)
		}
		e.broken.Store(false)
		e.change(column, "2") // a new change is a new chance
		e.idle(w)
		e.calls(2, 4)
		e.finished()
		stop()
		if len(e.parked()) != 0 {
			t.Fatalf("parked %+v", e.parked())
		}
	})
}

func TestRetryRunsAParkedObserverAgain(t *testing.T) {
	eachColumn(t, func(t *testing.T, by finding, column string) {
		e := newParkEnv(t, by)
		w, _ := e.start(e.client, e.registry, parkSoon)
		e.change(column, "1")
		e.idle(w)
		e.broken.Store(false)
		if err := observers.Retry(e.ctx, e.NewClient(), e.parked()[0]); err != nil {
			t.Fatal(err)
		}
		e.idle(w)
		e.calls(1, 4)
		e.finished()
		if e.get("r", "out") == "" {
			t.Fatal("the run had no effect")
		}
	})
}

func TestDropGivesUpOnAChange(t *testing.T) {
	fixture.Long(t)
	eachColumn(t, func(t *testing.T, by finding, column string) {
		e := newParkEnv(t, by)
		w, _ := e.start(e.client, e.registry, parkSoon)
		e.change(column, "1")
		e.idle(w)
		e.broken.Store(false)
		p := e.parked()[0]
		for range 2 { // the second time there is nothing to do
			if err := observers.Drop(e.ctx, e.client, p); err != nil {
				t.Fatal(err)
			}
		}
		e.finished()
		e.calls(1, 3)
		e.change(column, "2")
		e.idle(w)
		e.calls(2, 4)
		e.finished()
	})
}

// TestDropNeedsTheChangeThatWasParked: an operator who drops a change has not seen later ones.
func TestDropNeedsTheChangeThatWasParked(t *testing.T) {
	t.Parallel()
	e := newParkEnv(t, byJournal)
	w, stop := e.start(e.client, e.registry, parkSoon)
	e.change("in", "1")
	e.idle(w)
	p := e.parked()[0]
	stop()
	e.change("in", "2")
	if err := observers.Drop(e.ctx, e.client, p); !errors.Is(err, percolator.ErrConflict) {
		t.Fatalf("dropped a change that nobody has tried: %v", err)
	}
	e.broken.Store(false)
	w, _ = e.start(e.NewClient(), e.registry, parkSoon)
	e.idle(w)
	if e.get("r", "out") != "2 false" {
		t.Fatalf("the later change was not run for: %q", e.get("r", "out"))
	}
}

// TestKilledWhileParking kills a worker at every request that it sends from its first attempt on.
// The change is never lost: the next worker tries it or finds it parked, and after a retry the
// observer runs.
func TestKilledWhileParking(t *testing.T) {
	fixture.Long(t)
	eachColumn(t, func(t *testing.T, by finding, column string) {
		for kill := 1; ; kill++ {
			e := newParkEnv(t, by)
			c := e.NewClient()
			var sent atomic.Int64
			e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
				if e.bad.Load() > 0 && sent.Add(1) == int64(kill) {
					return percolatortest.Crash
				}
				return percolatortest.Pass
			})
			cfg := parkSoon
			cfg.DisableRowLocks, cfg.Scanners, cfg.Concurrency, cfg.DrainTimeout = true, 1, 1, time.Millisecond
			_, stop := e.start(c, e.registry, cfg)
			e.change(column, "1")
			e.until("the worker is dead, or has parked the cell", func() bool { return e.FaultsOf(c).Crashed() || len(e.parked()) == 1 })
			over := !e.FaultsOf(c).Crashed()
			stop()

			w, _ := e.start(e.NewClient(), e.registry, parkSoon)
			e.until("the cell is parked", func() bool { return len(e.parked()) == 1 })
			e.idle(w)
			if len(e.pending()) != 1 {
				t.Fatalf("killed at request %d: the notification is gone", kill)
			}
			e.broken.Store(false)
			if err := observers.Retry(e.ctx, e.client, e.parked()[0]); err != nil {
				t.Fatal(err)
			}
			e.idle(w)
			if e.get("r", "out") == "" {
				t.Fatalf("killed at request %d: the change was lost", kill)
			}
			e.finished()
			if over {
				if kill < 4 {
					t.Fatalf("the worker parked the cell with %d requests", kill)
				}
				return
			}
		}
	})
}

// TestParkingIsRepeated: a worker that cannot store an observer state goes on with its attempts.
func TestParkingIsRepeated(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testParkingIsRepeated)
}

func testParkingIsRepeated(t *testing.T) {
	e := newParkEnv(t, byJournal)
	c := e.NewClient()
	var refused atomic.Int64
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && e.bad.Load() >= 3 && e.bad.Load() < 6 {
			refused.Add(1)
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	cfg := parkSoon
	cfg.Concurrency, cfg.MaxBackoff = 1, 10*time.Millisecond
	w, _ := e.start(c, e.registry, cfg)
	e.change("in", "1")
	e.until("the cell is parked", func() bool { return len(e.parked()) == 1 })
	e.idle(w)
	if n := e.bad.Load(); n < 6 || refused.Load() == 0 {
		t.Fatalf("%d attempts, %d requests refused, parked %+v", n, refused.Load(), e.parked())
	}
}

// TestParkedReasonIsBounded: an observer may return anything as its error.
func TestParkedReasonIsBounded(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", func(context.Context, *percolator.Txn, observers.Change) error {
		return errors.New(strings.Repeat("ä", 10_000) + "\xff")
	})
	w, _ := e.start(e.client, r, observers.Config{MaxAttempts: 1})
	e.set(e.client, "r", "in", "1")
	e.idle(w)
	p := e.parked()
	if len(p) != 1 || len(p[0].Reason) > model.MaxParkedReason || len(p[0].Reason) < model.MaxParkedReason-4 || strings.ContainsRune(p[0].Reason, '\uFFFD') {
		t.Fatalf("parked %+v", p)
	}
}

// TestHostileObserverStates: what does not decode as an observer state has no effect on what is
// run.
func TestHostileObserverStates(t *testing.T) {
	t.Parallel()
	e, j, r := newScanEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	e.set(e.client, "r", "in", "1")
	for i, column := range []string{"\x00park\x00o\x00in", "\x00park\x00o", "\x00park\x00\x00in", "\x00park\x00stranger\x00in", "\x00park\x00o\x00other"} {
		e.plant("r", column, 1<<40+int64(i), []byte("{"))
	}
	e.plant("r", "\x00park\x00stranger\x00in", 1<<41, []byte(`{"Attempts":-1}`))
	w, _ := e.start(e.client, r, observers.Config{})
	e.idle(w)
	if j.count("o") != 1 {
		t.Fatalf("the observer was called %d times", j.count("o"))
	}
}

// TestNotParkedForALock: a cell that its observer cannot write because of the lock of a client that
// has died is tried until the lock is judged dead, however many attempts that takes.
func TestNotParkedForALock(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, column := range []string{"in", "w"} {
		eachFindingInBubble(t, column, func(t *testing.T, by finding) {
			e := newParkEnv(t, by)
			e.broken.Store(false)
			dying := e.NewClient()
			e.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
				if r.Sets("write") { // its commit
					return percolatortest.Crash
				}
				return percolatortest.Pass
			})
			if _, err := dying.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
				return errors.Join(tx.Set(cell("elsewhere", "out"), nil), tx.Set(cell("r", "out"), nil))
			}); err == nil {
				t.Fatal("the client did not die")
			}

			w, _ := e.start(e.client, e.registry, parkSoon)
			e.change(column, "v")
			e.until("more attempts than park a cell", func() bool { return e.bad.Load() > 3*int64(parkSoon.MaxAttempts) || len(e.parked()) > 0 })
			if p := e.parked(); len(p) > 0 {
				t.Errorf("parked: %+v", p)
			}
			e.Clock.Advance(time.Minute) // the lock is dead
			e.idle(w)
			if got := e.get("r", "out"); got == "" {
				t.Error("the observer has not run")
			}
		})
	}
}

// What is parked in several tables is listed once by the journal.
func TestListParkedReadsTheListOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, percolator.Table{Name: "t", Observed: []string{"in"}}, percolator.Table{Name: "u", Observed: []string{"in"}}, percolator.Table{Name: "v", Weak: []string{"w"}})
	c := e.NewClient()
	before := len(e.FaultsOf(c).JournalRequests())
	for p, err := range observers.ListParked(e.ctx, c) {
		t.Errorf("listed %v, %v", p, err)
	}
	if n := len(e.FaultsOf(c).JournalRequests()) - before; n != 1 {
		t.Errorf("%d requests to the journal, want 1", n)
	}
}
