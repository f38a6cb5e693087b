package observers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// batchTable has an observed and a weak column.
func batchTable() percolator.Table {
	return percolator.Table{Name: "t", Observed: []string{"in"}, Weak: []string{"poke"}}
}

// notifyAll notifies a column in rows 000 to n-1 by one transaction.
func (e *env) notifyAll(c *percolator.Client, column string, n int) {
	e.Helper()
	_, err := c.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range n {
			at := cell(fmt.Sprintf("%03d", i), column)
			notify := tx.Notify
			if column != "poke" {
				notify = func(at percolator.Cell) error { return tx.Set(at, []byte("v")) }
			}
			if err := notify(at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		e.Fatal(err)
	}
}

// sum is a BatchFunc that counts in the column out of each row how often it was run for.
func sum(j *journal) observers.BatchFunc {
	return func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
		for _, ch := range changes {
			n := 0
			v, err := tx.Get(ctx, cell(ch.Cell.Row, "out"))
			if err == nil {
				_, err = fmt.Sscan(string(v), &n)
			}
			if err != nil && !errors.Is(err, percolator.ErrNotFound) {
				return err
			}
			if err := tx.Set(cell(ch.Cell.Row, "out"), fmt.Append(nil, n+1)); err != nil {
				return err
			}
			j.add(ch.Cell.Row, ch)
		}
		return nil
	}
}

// once fails unless each of n rows but those in except was run for exactly once.
func (e *env) once(n int, except ...string) {
	e.Helper()
	for i := range n {
		row, want := fmt.Sprintf("%03d", i), "1"
		if slices.Contains(except, row) {
			want = ""
		}
		if got := e.get(row, "out"); got != want {
			e.Errorf("row %s was run for %q times, want %q", row, got, want)
		}
	}
}

// eachBatchColumn runs a test for batches of observed and of weakly notified cells.
func eachBatchColumn(t *testing.T, f func(t *testing.T, e *env, column string)) {
	t.Parallel()
	eachFinding(t, "", func(t *testing.T, by finding) {
		for _, column := range []string{"in", "poke"} {
			t.Run(column, func(t *testing.T) {
				t.Parallel()
				f(t, newEnvOf(t, by, []percolator.Table{batchTable()}), column)
			})
		}
	})
}

// only makes a worker take one column, and try each cell as often as it says.
func only(column string, attempts int) observers.Config {
	return observers.Config{
		Columns: []observers.Column{{Table: "t", Name: column}}, MaxAttempts: attempts, MinBackoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond,
		DisableCollection: true, ReportInterval: -1,
	}
}

func TestBatchRunsOnceForAll(t *testing.T) {
	fixture.Long(t)
	eachBatchColumn(t, func(t *testing.T, e *env, column string) {
		j, r := newJournal(), observers.NewRegistry()
		r.ObserveBatch("o", "t", column, sum(j), observers.MaxWait(time.Hour))
		e.notifyAll(e.client, column, 200)
		w, _ := e.start(e.client, r, only(column, 1))
		e.until("two full batches", func() bool { return w.Stats().Runs == 2 })
		e.until("nothing is left of them", func() bool { return len(e.pending()) == 0 })
		e.once(200)
		if s := w.Stats().Observers["o"]; s.Cells != 200 || s.Attempts != 2 || s.Acknowledged != 0 {
			t.Errorf("stats %+v", s)
		}
		for _, ch := range j.all() {
			if ch.Weak != (column == "poke") || ch.Attempt != 1 || ch.CommitTS == 0 || !ch.Weak && string(ch.Value) != "v" {
				t.Errorf("a change was %+v", ch)
			}
		}
	})
}

// bad is how an observer of batches fails for a row.
var bad = map[string]func(e *env, other *percolator.Client, tx *percolator.Txn) error{
	"error":  func(*env, *percolator.Client, *percolator.Txn) error { return errors.New("poison") },
	"panic":  func(*env, *percolator.Client, *percolator.Txn) error { panic("poison") },
	"goexit": func(*env, *percolator.Client, *percolator.Txn) error { runtime.Goexit(); return nil },
	"conflict": func(e *env, other *percolator.Client, tx *percolator.Txn) error {
		e.set(other, "hot", "out", "theirs")
		return tx.Set(cell("hot", "out"), []byte("ours"))
	},
}

// A bad cell among 64 costs the others six halvings: it alone is parked.
func TestBatchIsBisected(t *testing.T) {
	fixture.Long(t)
	eachBatchColumn(t, func(t *testing.T, e *env, column string) {
		for kind, fail := range bad {
			t.Run(kind, func(t *testing.T) {
				e := newEnvOf(t, e.by, []percolator.Table{batchTable()})
				const n, attempts, row = 64, 3, "037"
				var calls, alone atomic.Int64
				j, r, other := newJournal(), observers.NewRegistry(), e.NewClient()
				work := sum(j)
				r.ObserveBatch("o", "t", column, func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
					calls.Add(1)
					if err := work(ctx, tx, changes); err != nil {
						return err
					}
					if slices.ContainsFunc(changes, func(ch observers.Change) bool { return ch.Cell.Row == row }) {
						if len(changes) == 1 && alone.Add(1) != int64(changes[0].Attempt) {
							t.Errorf("attempt %d is the %dth alone", changes[0].Attempt, alone.Load())
						}
						return fail(e, other, tx)
					}
					return nil
				}, observers.MaxCells(n), observers.MaxWait(time.Hour))
				e.notifyAll(e.client, column, n)
				w, _ := e.start(e.client, r, only(column, attempts))
				e.idle(w)
				e.once(n, row)
				if got := calls.Load(); got > 13+attempts-1 || alone.Load() != attempts {
					t.Errorf("%d calls, %d of them for the bad cell alone", got, alone.Load())
				}
				s := w.Stats().Observers["o"]
				if list := e.parked(); len(list) != 1 || list[0].Cell != cell(row, column) || list[0].Attempts != attempts {
					t.Errorf("parked %v", list)
				}
				if s.Cells != n-1 || s.Runs != 6 || s.Attempts != calls.Load() || s.Retries != s.Attempts-1 || s.Parked != 1 {
					t.Errorf("stats %+v", s)
				}
			})
		}
	})
}

// A hanging cell is found as well, and one bisection does not hold a slot for ever: of many that
// hang, those that are not reached in time run by themselves.
func TestBatchThatHangs(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, hanging := range []int{1, 16} {
		t.Run(fmt.Sprint(hanging), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				e, j, r := newEnv(t, batchTable()), newJournal(), observers.NewRegistry()
				const n, timeout = 16, time.Second
				work := sum(j)
				var calls atomic.Int64
				r.ObserveBatch("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
					calls.Add(1)
					for _, ch := range changes {
						if ch.Cell.Row >= fmt.Sprintf("%03d", n-hanging) {
							<-ctx.Done()
							return ctx.Err()
						}
					}
					return work(ctx, tx, changes)
				}, observers.MaxCells(n), observers.MaxWait(time.Hour), observers.Timeout(timeout))
				e.notifyAll(e.client, "in", n)
				w, _ := e.start(e.client, r, only("in", 1))
				e.idle(w)
				if list := e.parked(); len(list) != hanging {
					t.Errorf("parked %v", list)
				}
				if hanging == 1 {
					e.once(n, "015")
				} else if got := calls.Load(); got >= 2*n-1 {
					t.Errorf("%d calls: all halves have hung one after the other", got)
				}
			})
		})
	}
}

// Values that cannot be decoded cost one run of the others.
func TestTypedBatch(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, batchTable()), observers.NewRegistry()
	in := percolator.Int64("t", "in")
	var calls [][]string
	observers.ObserveBatch(r, "o", in, func(_ context.Context, tx *percolator.Txn, changes []observers.TypedChange[int64]) error {
		var rows []string
		for _, ch := range changes {
			rows = append(rows, fmt.Sprint(ch.Cell.Row, "=", ch.Value, " ", ch.Deleted, " ", len(ch.Change.Value)))
		}
		calls = append(calls, rows)
		return nil
	}, observers.MaxCells(5), observers.MaxWait(time.Hour))
	_, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		return errors.Join(in.Set(tx, "a", 1), tx.Set(cell("b", "in"), []byte("?")), in.Set(tx, "c", 3), tx.Set(cell("d", "in"), []byte("?")), in.Delete(tx, "e"))
	})
	if err != nil {
		t.Fatal(err)
	}
	w, stop := e.start(e.client, r, only("in", 2))
	e.idle(w)
	stop()
	if len(calls) != 1 || !slices.Equal(calls[0], []string{"a=1 false 8", "c=3 false 8", "e=0 true 0"}) {
		t.Errorf("called for %v", calls)
	}
	var parked []string
	for _, p := range e.parked() {
		parked = append(parked, p.Cell.Row)
		if !strings.Contains(p.Reason, "corrupt") {
			t.Errorf("parked as %s", p.Reason)
		}
	}
	if s := w.Stats().Observers["o"]; !slices.Equal(parked, []string{"b", "d"}) || s.Attempts != 1+1+2+2 {
		t.Errorf("parked %v, stats %+v", parked, s)
	}
}

// A snooze postpones the batch as a whole, and is no attempt.
func TestBatchSnoozes(t *testing.T) {
	eachBatchColumn(t, func(t *testing.T, e *env, column string) {
		const n = 8
		j, r := newJournal(), observers.NewRegistry()
		work := sum(j)
		var calls atomic.Int64
		r.ObserveBatch("o", "t", column, func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
			if len(changes) != n || changes[0].Attempt != 1 {
				t.Errorf("called for %d changes, attempt %d", len(changes), changes[0].Attempt)
			}
			if calls.Add(1) < 4 {
				return observers.Snooze(time.Millisecond)
			}
			return work(ctx, tx, changes)
		}, observers.MaxCells(n), observers.MaxWait(time.Hour))
		e.notifyAll(e.client, column, n)
		w, _ := e.start(e.client, r, only(column, 1))
		e.idle(w)
		e.once(n)
		if s := w.Stats(); s.Runs != 1 || s.Snoozes != 3 || s.Retries != 0 || s.Parked != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A batch of which nobody knows whether it has committed is not cut up: it finds its
// acknowledgments. Neither is one for which the oracle does not answer.
func TestBatchStaysWholeWhenTheStoreIsToBlame(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBatchStaysWholeWhenTheStoreIsToBlame)
}

func testBatchStaysWholeWhenTheStoreIsToBlame(t *testing.T) {
	e, j, r := newScanEnv(t, batchTable()), newJournal(), observers.NewRegistry()
	const n = 16
	r.ObserveBatch("o", "t", "in", sum(j), observers.MaxCells(n), observers.MaxWait(time.Hour), observers.Timeout(time.Second))
	c := e.NewClient()
	var cutOff, heard, down atomic.Bool
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") && cutOff.CompareAndSwap(false, true):
			return percolatortest.LoseAnswer
		case cutOff.Load() && r.Method == percolatortest.ReadRows && r.Table == "t" && !heard.Load(),
			r.Method == percolatortest.Oracle && down.Load():
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	down.Store(true)
	e.notifyAll(e.client, "in", n)
	w, _ := e.start(c, r, only("in", 1))
	e.until("the oracle is missed", func() bool { return w.Stats().Errors >= 2 })
	down.Store(false)
	e.until("the commit's outcome is unknown", func() bool { return cutOff.Load() && w.Stats().Attempts == 1 && w.Stats().Running == 0 })
	heard.Store(true)
	e.idle(w)
	e.once(n)
	if s := w.Stats(); s.Attempts != 1 || s.Acknowledged != n || s.Parked != 0 || s.Retries != 0 {
		t.Errorf("stats %+v", s)
	}
}

// A transaction that would be too large is cut up like any that fails.
func TestBatchThatIsTooLarge(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, batchTable()), newJournal(), observers.NewRegistry()
	const n = 8
	work := sum(j)
	var most atomic.Int64
	r.ObserveBatch("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
		if len(changes) > 2 {
			return fmt.Errorf("as large as %d: %w", len(changes), percolator.ErrTooLarge)
		}
		most.Store(max(most.Load(), int64(len(changes))))
		return work(ctx, tx, changes)
	}, observers.MaxCells(n), observers.MaxWait(time.Hour))
	e.notifyAll(e.client, "in", n)
	w, _ := e.start(e.client, r, only("in", 1))
	e.idle(w)
	e.once(n)
	if s := w.Stats(); s.Runs != 4 || s.Attempts != 7 || most.Load() != 2 {
		t.Errorf("stats %+v", s)
	}
}

// What a batch holds of values is bounded.
func TestBatchEndsAtBytes(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	e, j, r := newEnv(t, batchTable()), newJournal(), observers.NewRegistry()
	const n, size = 20, 2 << 20
	work := sum(j)
	var most atomic.Int64
	r.ObserveBatch("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
		most.Store(max(most.Load(), int64(len(changes))))
		return work(ctx, tx, changes)
	}, observers.MaxCells(n), observers.MaxWait(time.Hour))
	for i := range n {
		e.set(e.client, fmt.Sprintf("%03d", i), "in", strings.Repeat("x", size))
	}
	w, _ := e.start(e.client, r, only("in", 1))
	e.idle(w)
	e.once(n)
	if s := w.Stats(); s.Runs != 3 || s.Attempts != 3 || most.Load() != 8 {
		t.Errorf("%d at once, stats %+v", most.Load(), s)
	}
}

// Two workers with the same cells: each change is run for once, whoever is faster.
func TestBatchesOfTwoWorkersOverlap(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testBatchesOfTwoWorkersOverlap)
}

func testBatchesOfTwoWorkersOverlap(t *testing.T) {
	e, j := newScanEnv(t, batchTable()), newJournal()
	const n, rounds = 60, 5
	var workers []*observers.Worker
	for range 2 {
		r := observers.NewRegistry()
		r.ObserveBatch("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
			time.Sleep(20 * time.Millisecond) // until the other worker has found the same cells
			return sum(j)(ctx, tx, changes)
		}, observers.MaxCells(40))
		cfg := only("in", 1000)
		cfg.DisableRowLocks, cfg.ScanInterval = true, 5*time.Millisecond
		w, _ := e.start(e.NewClient(), r, cfg)
		workers = append(workers, w)
	}
	for round := range rounds {
		e.notifyAll(e.client, "in", n)
		for _, w := range workers {
			e.idle(w)
		}
		for i := range n {
			if got := e.get(fmt.Sprintf("%03d", i), "out"); got != fmt.Sprint(round+1) {
				t.Fatalf("row %d was run for %s times in %d rounds", i, got, round+1)
			}
		}
	}
	cells := workers[0].Stats().Cells + workers[1].Stats().Cells
	if cells != n*rounds {
		t.Errorf("runs for %d cells committed, want %d", cells, n*rounds)
	}
	t.Logf("%+v and %+v", workers[0].Stats().ObserverStats, workers[1].Stats().ObserverStats)
}

// What is left of a bisection when the worker stops is for others.
func TestBisectionEndsWithTheWorker(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBisectionEndsWithTheWorker)
}

func testBisectionEndsWithTheWorker(t *testing.T) {
	e, j, r := newEnv(t, batchTable()), newJournal(), observers.NewRegistry()
	const n = 32
	ctx, stop := context.WithCancel(e.ctx)
	stopped := make(chan struct{})
	var calls atomic.Int64
	r.ObserveBatch("o", "t", "in", func(context.Context, *percolator.Txn, []observers.Change) error {
		if calls.Add(1) == 2 {
			stop()
			close(stopped)
		}
		return errors.New("not this worker")
	}, observers.MaxCells(n), observers.MaxWait(time.Hour))
	e.notifyAll(e.client, "in", n)
	w, err := observers.NewWorker(e.NewClient(), r, only("in", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	<-stopped
	if calls.Load() != 2 || len(e.parked()) != 0 || w.Stats().Running != 0 {
		t.Errorf("%d calls, parked %v", calls.Load(), e.parked())
	}
	healthy := observers.NewRegistry()
	healthy.ObserveBatch("o", "t", "in", sum(j), observers.MaxCells(n))
	w, _ = e.start(e.NewClient(), healthy, only("in", 1))
	e.idle(w)
	e.once(n)
}

// A batch beside an observer of single cells: each has its acknowledgments, and the notifications
// go with the last of them.
func TestBatchBesideASingleObserver(t *testing.T) {
	eachBatchColumn(t, func(t *testing.T, e *env, column string) {
		const n = 20
		j, r := newJournal(), observers.NewRegistry()
		r.ObserveBatch("o", "t", column, sum(j), observers.MaxCells(n))
		r.Observe("single", "t", column, func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row == "007" {
				return errors.New("poison")
			}
			return tx.Set(cell(ch.Cell.Row, "single"), []byte("1"))
		})
		e.notifyAll(e.client, column, n)
		w, stop := e.start(e.client, r, only(column, 2))
		e.idle(w)
		e.once(n)
		if rows := e.pending(); !slices.Equal(rows, []string{"007"}) {
			t.Errorf("notifications are left in %v", rows)
		}
		if list := e.parked(); len(list) != 1 || list[0].Observer != "single" {
			t.Errorf("parked %v", list)
		}
		stop() // a worker that knows nothing of it runs for neither
		again, _ := e.start(e.NewClient(), r, only(column, 2))
		e.idle(again)
		e.searched(again, 2)
		if s := again.Stats(); s.Attempts != 0 {
			t.Errorf("%d more attempts", s.Attempts)
		}
	})
}

func TestRegistryRefusesBadBatches(t *testing.T) {
	t.Parallel()
	e := newEnv(t, batchTable())
	f := sum(newJournal())
	for name, register := range map[string]func(*observers.Registry){
		"no function":    func(r *observers.Registry) { r.ObserveBatch("o", "t", "in", nil) },
		"no typed one":   func(r *observers.Registry) { observers.ObserveBatch[string](r, "o", percolator.String("t", "in"), nil) },
		"no cells":       func(r *observers.Registry) { r.ObserveBatch("o", "t", "in", f, observers.MaxCells(0)) },
		"too many cells": func(r *observers.Registry) { r.ObserveBatch("o", "t", "in", f, observers.MaxCells(1001)) },
		"negative wait":  func(r *observers.Registry) { r.ObserveBatch("o", "t", "in", f, observers.MaxWait(-1)) },
		"cells of a single observer": func(r *observers.Registry) {
			r.Observe("o", "t", "in", func(context.Context, *percolator.Txn, observers.Change) error { return nil }, observers.MaxCells(1))
		},
	} {
		r := observers.NewRegistry()
		register(r)
		if _, err := observers.NewWorker(e.client, r, only("in", 1)); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A change, or a notification, that comes while its batch runs is run for again (I11, I13).
func TestChangeDuringABatchSurvives(t *testing.T) {
	eachBatchColumn(t, func(t *testing.T, e *env, column string) {
		const n = 8
		j, r := newJournal(), observers.NewRegistry()
		work := sum(j)
		var calls atomic.Int64
		during := map[string]bool{} // the rows of the first batch: it may have started before all were found
		other := e.NewClient()
		r.ObserveBatch("o", "t", column, func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
			if calls.Add(1) == 1 {
				for _, ch := range changes {
					during[ch.Cell.Row] = true
				}
				e.notifyAll(other, column, n/2)
			}
			return work(ctx, tx, changes)
		}, observers.MaxCells(n), observers.MaxWait(100*time.Millisecond))
		e.notifyAll(e.client, column, n)
		w, _ := e.start(e.NewClient(), r, only(column, 1))
		e.until("the first batch", func() bool { return calls.Load() > 0 })
		e.idle(w)
		if !during["000"] {
			t.Fatalf("the first batch is of the rows %v", during)
		}
		for i := range n {
			row, want := fmt.Sprintf("%03d", i), "1"
			if i < n/2 && during[row] {
				want = "2"
			}
			if got := e.get(row, "out"); got != want {
				t.Errorf("row %s was run for %s times, want %s", row, got, want)
			}
		}
	})
}
