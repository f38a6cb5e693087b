package observers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// inGroups is the environment of a test whose runs begin together: a second after they were
// notified.
type inGroups struct {
	*env
	*journal
	r *observers.Registry
	w *observers.Worker
}

const togetherAfter = time.Second

// testGroups runs a test of groups in virtual time, in which all cells that one transaction writes
// are due at the same moment.
func testGroups(t *testing.T, f func(t *testing.T, g *inGroups)) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e := newEnv(t, percolator.Table{Name: "t", Observed: []string{"in"}})
		f(t, &inGroups{env: e, journal: newJournal(), r: observers.NewRegistry()})
	})
}

// observe registers an observer that leaves a one in the column out of each row beside what f does,
// and starts the worker.
func (g *inGroups) observe(f observers.Func, opts ...observers.Option) {
	g.Helper()
	g.r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		g.add(ch.Cell.Row, ch)
		n, err := count(ctx, tx, cell(ch.Cell.Row, "out"))
		if err == nil {
			err = tx.Set(cell(ch.Cell.Row, "out"), fmt.Append(nil, n+1))
		}
		if err != nil {
			return err
		}
		return f(ctx, tx, ch)
	}, append(opts, observers.CommitTogether(), observers.Collapse(togetherAfter))...)
	g.w, _ = g.start(g.client, g.r, observers.Config{Concurrency: 16, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
		DisableCollection: true, ReportInterval: -1})
}

// count is the number in a cell, 0 if there is none.
func count(ctx context.Context, tx *percolator.Txn, c percolator.Cell) (n int, err error) {
	values, err := tx.GetMulti(ctx, c)
	if err == nil && values[0] != nil {
		n, err = strconv.Atoi(string(values[0]))
	}
	return n, err
}

// gather writes cells, whose runs begin together.
func (g *inGroups) gather(n int) {
	g.Helper()
	g.writeRows(n)
	g.w.Gather(g.ctx, "o", n)
}

// ranOnce fails unless each of n rows has one committed run, and nothing is left.
func (g *inGroups) ranOnce(n int) {
	g.Helper()
	g.idle(g.w)
	for i := range n {
		if row := fmt.Sprintf("r%03d", i); g.get(row, "out") != "1" {
			g.Errorf("row %s was run for %q times", row, g.get(row, "out"))
		}
	}
	if left := g.pending(); len(left) != 0 {
		g.Errorf("left: %q", left)
	}
}

// commits is how many commit points the client has passed, or tried to.
func (g *inGroups) commits() (n int) {
	for _, r := range g.FaultsOf(g.client).Requests() {
		if r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") {
			n++
		}
	}
	return n
}

// A member that fails leaves nothing, and the others' commit stands: their runs are called once,
// its own again (I32).
func TestMemberThatFails(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error":  func() error { return errors.New("fails") },
		"panic":  func() error { panic("fails") },
		"snooze": func() error { return observers.Snooze(time.Second) },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			testGroups(t, func(t *testing.T, g *inGroups) {
				g.observe(func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
					if err := tx.Set(cell("by "+ch.Cell.Row, strconv.Itoa(g.count(ch.Cell.Row))), nil); err != nil || ch.Cell.Row != "r002" || g.count(ch.Cell.Row) > 1 {
						return err
					}
					return fail()
				})
				g.gather(5)
				g.ranOnce(5)
				for i := range 5 {
					want := 1
					if i == 2 {
						want = 2
					}
					if row := fmt.Sprintf("r%03d", i); g.count(row) != want {
						t.Errorf("%d calls for %s", g.count(row), row)
					}
				}
				if n := g.commits(); n != 3 { // of the write, the group, and the member
					t.Errorf("%d commits", n)
				}
				if err := g.client.View(g.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
					_, err := s.Get(ctx, cell("by r002", "1"))
					return err
				}); !errors.Is(err, percolator.ErrNotFound) {
					t.Errorf("what the failed call has written: %v", err)
				}
			})
		})
	}
}

// A member that takes its time holds up no other, and is called once (I32).
func TestMemberThatIsSlow(t *testing.T) {
	testGroups(t, func(t *testing.T, g *inGroups) {
		var others atomic.Int64
		g.observe(func(ctx context.Context, _ *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row != "r002" {
				return nil
			}
			g.until("the runs of the others", func() bool { others.Store(g.w.Stats().Runs); return others.Load() == 4 })
			return nil
		})
		g.gather(5)
		g.ranOnce(5)
		if s := g.w.Stats(); others.Load() != 4 || s.Attempts != 5 || s.Conflicts != 0 {
			t.Errorf("%d others had run; stats %+v", others.Load(), s)
		}
		if n := g.commits(); n != 3 {
			t.Errorf("%d commits", n)
		}
	})
}

// A cell that every run changes holds nobody up for ever, and loses no change (I2, I32).
func TestGroupsWithAHotCell(t *testing.T) {
	testGroups(t, func(t *testing.T, g *inGroups) {
		const cells = 50
		g.observe(func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			n, err := count(ctx, tx, cell("total", "out"))
			if err != nil {
				return err
			}
			return tx.Set(cell("total", "out"), fmt.Append(nil, n+1))
		})
		g.writeRows(cells)
		g.ranOnce(cells)
		if got := g.get("total", "out"); got != strconv.Itoa(cells) {
			t.Errorf("the total is %s", got)
		}
		if s := g.w.Stats(); s.Parked != 0 || s.Attempts > 20*cells {
			t.Errorf("stats %+v", s)
		}
	})
}

// A write that another client commits during the runs of a group is not lost: who has read what it
// replaced runs again, and only that (I2, I32).
func TestWriteDuringAGroup(t *testing.T) {
	testGroups(t, func(t *testing.T, g *inGroups) {
		other := g.NewClient()
		g.observe(func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row != "r002" {
				return nil
			}
			n, err := count(ctx, tx, cell("total", "out"))
			if err == nil && g.count("r002") == 1 {
				g.set(other, "total", "out", "10")
			}
			if err != nil {
				return err
			}
			return tx.Set(cell("total", "out"), fmt.Append(nil, n+1))
		})
		g.gather(5)
		g.ranOnce(5)
		if got := g.get("total", "out"); got != "11" {
			t.Errorf("the total is %s", got)
		}
		if s := g.w.Stats(); s.Attempts != 6 || s.Conflicts != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A change that comes during the run of its cell in a group has a run of its own (I13, I32).
func TestChangeDuringAGroupSurvives(t *testing.T) {
	testGroups(t, func(t *testing.T, g *inGroups) {
		other := g.NewClient()
		g.observe(func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row == "r002" && g.count("r002") == 1 {
				g.set(other, "r002", "in", "newer")
			}
			return nil
		})
		g.gather(5)
		g.idle(g.w)
		if got := g.get("r002", "out"); got != "2" || len(g.pending()) != 0 {
			t.Errorf("%s runs for the row, left %q", got, g.pending())
		}
	})
}

// A commit of a group whose outcome is unknown is no second run of its members (I17, I32).
func TestUnknownOutcomeOfAGroup(t *testing.T) {
	testGroups(t, func(t *testing.T, g *inGroups) {
		var lost, mute atomic.Bool
		g.observe(func(context.Context, *percolator.Txn, observers.Change) error { return nil }, observers.Timeout(time.Second))
		g.gather(5)
		g.FaultsOf(g.client).Handle(func(r percolatortest.Request) percolatortest.Action {
			switch {
			case r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") && lost.CompareAndSwap(false, true):
				mute.Store(true)
				return percolatortest.LoseAnswer
			case mute.Load() && r.Table == "t":
				return percolatortest.LoseRequest
			}
			return percolatortest.Pass
		})
		g.until("the outcome is unknown", func() bool { return g.w.Stats().Errors >= 5 })
		mute.Store(false)
		g.ranOnce(5)
		if s := g.w.Stats(); s.Parked != 0 || s.Attempts != 5 || s.Acknowledged != 5 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Two workers with the same cells: one run of each commits (I12, I32).
func TestGroupsOfTwoWorkersOverlap(t *testing.T) {
	testGroups(t, func(t *testing.T, g *inGroups) {
		g.observe(func(context.Context, *percolator.Txn, observers.Change) error { return nil })
		second, _ := g.start(g.NewClient(), g.r, observers.Config{Concurrency: 16, DisableDispatch: true, DisableCollection: true, ReportInterval: -1})
		g.gather(16)
		if err := second.Survey(g.ctx); err != nil {
			t.Fatal(err)
		}
		g.idle(second)
		g.ranOnce(16)
	})
}

// A process that dies at any write of a group leaves each change to one run that commits (I12,
// I32).
func TestGroupWhoseProcessDies(t *testing.T) {
	testGroups(t, func(t *testing.T, g *inGroups) {
		const cells = 3
		row := func(run, i int) string { return fmt.Sprintf("%03d-%d", run, i) }
		g.r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			n, err := count(ctx, tx, cell("out "+ch.Cell.Row, "out"))
			if err != nil {
				return err
			}
			return tx.Set(cell("out "+ch.Cell.Row, "out"), fmt.Append(nil, n+1))
		}, observers.CommitTogether(), observers.Collapse(togetherAfter))
		cfg := observers.Config{Concurrency: 16, DisableCollection: true, ReportInterval: -1, DrainTimeout: time.Millisecond}
		g.DieAtEach(func(ctx context.Context, run int, c *percolator.Client) error {
			_, err := g.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
				for i := range cells {
					if err := tx.Set(cell(row(run, i), "in"), []byte("v")); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			w, stop := g.start(c, g.r, cfg)
			defer stop()
			w.Gather(ctx, "o", cells)
			return w.WaitIdle(ctx)
		}, func(ctx context.Context, run int, c *percolator.Client) error {
			w, stop := g.start(c, g.r, cfg)
			defer stop()
			if err := w.WaitIdle(ctx); err != nil {
				return err
			}
			for i := range cells {
				if got := g.get("out "+row(run, i), "out"); got != "1" {
					return fmt.Errorf("%s runs for row %s have committed", got, row(run, i))
				}
			}
			return nil
		})
		if left := g.pending(); len(left) != 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// A request of a group that is lost, whose answer is lost or that comes twice leaves each change to
// one run that commits (I3, I12, I17, I32).
func TestGroupWithFaults(t *testing.T) {
	const cells = 3
	for _, fault := range []percolatortest.Effect{percolatortest.LoseRequest, percolatortest.LoseAnswer, percolatortest.Duplicate} {
		t.Run(fault.String(), func(t *testing.T) {
			testGroups(t, func(t *testing.T, g *inGroups) {
				g.observe(func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
					return tx.Set(cell("by "+ch.Cell.Row, "out"), nil)
				})
				var struck atomic.Bool
				struck.Store(true)
				for at := 1; struck.Load(); at++ {
					g.writeRowsFrom(at*cells, cells)
					struck.Store(false)
					var sent atomic.Int64
					g.FaultsOf(g.client).Handle(func(r percolatortest.Request) percolatortest.Action {
						if r.Table == "percolator_meta" || int(sent.Add(1)) != at {
							return percolatortest.Pass
						}
						struck.Store(true)
						return fault
					})
					g.w.Gather(g.ctx, "o", cells)
					g.until("all runs", func() bool { s := g.w.Stats(); return s.Queued+s.Running == 0 })
					g.FaultsOf(g.client).Handle(func(percolatortest.Request) percolatortest.Action { return percolatortest.Pass })
					g.idle(g.w)
					if left := g.pending(); len(left) != 0 {
						t.Fatalf("request %d: left %q", at, left)
					}
					for i := range cells {
						if row := fmt.Sprintf("r%03d", at*cells+i); g.get(row, "out") != "1" {
							t.Fatalf("request %d: row %s was run for %q times", at, row, g.get(row, "out"))
						}
					}
					if at > 100 {
						t.Fatal("there is no end of requests")
					}
				}
			})
		})
	}
}
