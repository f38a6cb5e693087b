package observers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// brokenOff returns options with which a walk ends after its first page, whose position is stored.
func brokenOff(e *env, page int) (context.Context, admin.ObserverOptions) {
	ctx, cancel := context.WithCancel(e.ctx)
	e.Cleanup(cancel)
	return ctx, admin.ObserverOptions{RowsPerPage: page, Progress: func(admin.ObserverProgress) { cancel() }, Pause: time.Millisecond}
}

// TestBackfillAfterForgetSkipsWhatAnEarlierBackfillHadDone: a backfill is interrupted, and the
// observer is removed, forgotten and added again. It "starts from nothing", so the backfill has to
// notify everything.
func TestBackfillAfterForgetSkipsWhatAnEarlierBackfillHadDone(t *testing.T) {
	t.Parallel()
	const rows = 30
	e, j, r := aged(t, rows)
	r.Observe("new", "t", "in", j.observer("new"))
	w, stop := e.start(e.NewClient(), r, observers.Config{})
	ctx, opts := brokenOff(e, 10)
	if p, err := admin.New(e.client).BackfillObserver(ctx, "t", "in", "new", opts); err == nil {
		t.Fatalf("not broken off: %+v", p)
	}
	e.idle(w)
	stop()
	ran := j.count("new")
	if ran == 0 || ran == rows {
		t.Fatalf("the broken backfill notified %d cells", ran)
	}
	if p, err := admin.New(e.client).ForgetObserver(e.ctx, "t", "in", "new", admin.ObserverOptions{}); err != nil || p.Changed != int64(ran) {
		t.Fatalf("%+v, %v", p, err)
	}
	w, _ = e.start(e.NewClient(), r, observers.Config{})
	p, err := admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "new", admin.ObserverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.idle(w)
	if n := j.count("new") - ran; n != rows {
		t.Errorf("after it was forgotten the observer was backfilled for %d of %d cells: %+v", n, rows, p)
	}
}

// holdPhaseTwo has the requests of a client that make its commits' other cells visible wait.
func holdPhaseTwo(e *env, c *percolator.Client) *percolatortest.Hold {
	hold := percolatortest.NewHold()
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Sets("write") {
			return hold
		}
		return percolatortest.Pass
	})
	e.Cleanup(hold.Release)
	return hold
}

// What ForgetObserver has deleted is backfilled, though the deletions are still under their locks.
func TestBackfillBesideThePhaseTwoOfAForget(t *testing.T) {
	t.Parallel()
	const rows = 30
	e, _, _ := aged(t, rows)
	c := e.NewClient()
	hold := holdPhaseTwo(e, c)
	if p, err := admin.New(c).ForgetObserver(e.ctx, "t", "in", "old", admin.ObserverOptions{}); err != nil || p.Changed != rows {
		t.Fatalf("%+v, %v", p, err)
	}
	fixture.Eventually(t, "phase two is held", func() bool { return len(hold.Requests()) > 0 })
	if p, err := admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "old", admin.ObserverOptions{}); err != nil || p.Changed != rows {
		t.Errorf("backfilled %+v, %v; want %d cells", p, err, rows)
	}
}

// ForgetObserver deletes the acknowledgments of a batch that has committed, though all but one are
// still under their locks.
func TestForgetBesideThePhaseTwoOfABatch(t *testing.T) {
	t.Parallel()
	const rows = 30
	e, _, r := aged(t, rows)
	ran := make(chan struct{})
	r.ObserveBatch("batch", "t", "in", func(_ context.Context, _ *percolator.Txn, changes []observers.Change) error {
		if len(changes) == rows {
			close(ran)
		}
		return nil
	}, observers.MaxCells(rows), observers.MaxWait(time.Minute))
	if p, err := admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "batch", admin.ObserverOptions{}); err != nil || p.Changed != rows {
		t.Fatalf("%+v, %v", p, err)
	}
	c := e.NewClient()
	hold := holdPhaseTwo(e, c)
	w, stop := e.start(c, r, observers.Config{})
	<-ran
	fixture.Eventually(t, "the batch has committed, and its phase two is held", func() bool {
		return w.Stats().Observers["batch"].Runs == 1 && len(hold.Requests()) > 0
	})
	stop()
	p, err := admin.New(e.client).ForgetObserver(e.ctx, "t", "in", "batch", admin.ObserverOptions{})
	if err != nil || p.Changed != rows {
		t.Errorf("%+v, %v; want %d forgotten", p, err, rows)
	}
}

// TestForgetSkipsWhatAnEarlierForgetHadDone is the same the other way round.
func TestForgetSkipsWhatAnEarlierForgetHadDone(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const rows = 30
		e, j, r := aged(t, rows)
		r.Observe("gone", "t", "in", j.observer("gone"))
		run := func() {
			w, stop := e.start(e.NewClient(), r, observers.Config{})
			if _, err := admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "gone", admin.ObserverOptions{}); err != nil {
				t.Fatal(err)
			}
			e.idle(w)
			stop()
		}
		run()
		ctx, opts := brokenOff(e, 10)
		if p, err := admin.New(e.client).ForgetObserver(ctx, "t", "in", "gone", opts); err == nil {
			t.Fatalf("not broken off: %+v", p)
		}
		run() // it is back
		if n := e.acks("gone"); n < rows {
			t.Fatalf("%d acknowledgments, want at least %d", n, rows)
		}
		p, err := admin.New(e.client).ForgetObserver(e.ctx, "t", "in", "gone", admin.ObserverOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e.collect()
		if n := e.acks("gone"); n != 0 {
			t.Errorf("%d cells of acknowledgments are left: %+v", n, p)
		}
	})
}

// TestBackfillMissesACommittedCellUnderItsLock: a transaction committed before the column was
// observed, and its writer died before phase two. Every reader sees the cell's value, so the
// backfill has to notify it: the lock says "not observed", and the roll-forward writes no
// notification.
func TestBackfillMissesACommittedCellUnderItsLock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	timing := percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}
	schema := func(observed ...string) *percolator.Schema {
		return &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: observed}}, Timing: timing}
	}
	pt := percolatortest.New(t, schema())
	e := &env{t, pt, ctx, pt.Client, byJournal}

	dead := e.NewClient()
	hold := percolatortest.NewHold()
	e.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows { // phase two
			return hold
		}
		return percolatortest.Pass
	})
	if _, err := dead.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return errors.Join(tx.Set(cell("primary", "in"), []byte("1")), tx.Set(cell("secondary", "in"), []byte("1")))
	}); err != nil {
		t.Fatal(err)
	}
	hold.Wait(t, 1)
	e.FaultsOf(dead).Crash()
	hold.Drop()

	if err := percolator.CreateSchema(ctx, e.Project, e.Instance, schema("in"), e.Options()...); err != nil {
		t.Fatal(err)
	}
	e.client = e.NewClient()
	e.Clock.Advance(time.Hour / 4) // the lock is dead, and the schema is in force
	j, r := newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	w, _ := e.start(e.client, r, observers.Config{ScanInterval: time.Millisecond, DisableCollection: true})
	p, err := admin.New(e.client).BackfillObserver(ctx, "t", "in", "o", admin.ObserverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.get("secondary", "in"); got != "1" {
		t.Fatalf("the cell is %q", got)
	}
	e.until("the lock is resolved", func() bool { return len(e.pending()) == 0 })
	e.idle(w)
	if j.count("o") != 2 {
		t.Errorf("the observer ran for %d of 2 cells that had a value before the backfill: %+v", j.count("o"), p)
	}
}

// TestBackfillPassesOverACellThatCannotBeDecoded: "Cells that cannot be decoded are notified: their
// readers report them."
func TestBackfillPassesOverACellThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	e, _, r := aged(t, 1)
	mut := bigtable.NewMutation()
	mut.Set("write", "in", 1<<50*1000, []byte("garbage"))
	for _, row := range []string{"0000", "only garbage"} {
		if err := e.Store().Open("t").Apply(e.ctx, row, mut); err != nil {
			t.Fatal(err)
		}
	}
	r.Observe("new", "t", "in", newJournal().observer("new"))
	if p, err := admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "new", admin.ObserverOptions{}); err != nil || p.Rows != 2 || p.Changed != 2 {
		t.Errorf("a cell that cannot be decoded is passed over: %+v, %v", p, err)
	}
}
