package sweep_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What a sweep has found, and not yet looked at again when its process dies, its successor finds.
func TestSweepThatDiesWithFindings(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSweepThatDiesWithFindings)
}

func testSweepThatDiesWithFindings(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(false))
	ctx := fixture.Context(t)
	const rows = 900 // two pages, and fewer than are looked at again together
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) (err error) {
		for i := range rows {
			err = errors.Join(err, tx.Set(fixture.Cell(fixture.Key(i), "seen"), []byte("1")))
		}
		return err
	}))
	fixture.Must(t, env.Client.Flush(ctx))
	fixture.EmptyJournal(t, ctx, env)
	env.Clock.Advance(2 * time.Hour)
	dying := env.NewClient()
	var page time.Time
	w, err := admin.New(dying).NewSweeper(model.SweepConfig{Lease: time.Second, RowsPerSecond: 200, Progress: func(p model.Sweep) {
		switch {
		case p.Rows < 512:
		case page.IsZero():
			page = time.Now()
		case time.Since(page) > 600*time.Millisecond: // it has saved its position, and waits
			env.FaultsOf(dying).Crash()
		}
	}})
	fixture.Must(t, err)
	if _, err := w.Sweep(ctx); err == nil {
		t.Fatal("the sweep came to its end")
	}
	saved, err := admin.New(env.Client).Sweep(ctx)
	if err != nil || saved.Rows == 0 || saved.Missed.Sum() != 0 {
		t.Fatalf("it died with %+v, %v", saved, err)
	}
	env.Clock.Advance(2 * time.Second)
	dispatched := fixture.Heard(env.Client)
	if done := fixture.Sweep(t, ctx, env.Client, model.SweepConfig{}); done.Started != saved.Started || done.Missed != (model.SweepMissed{Notifications: rows}) {
		t.Errorf("%+v after %+v", done, saved)
	}
	if n := len(dispatched()); n != rows {
		t.Errorf("dispatched %d of %d notifications", n, rows)
	}
}

// An open entry hides what it leads to and nothing else in its row: a lock of another transaction
// counts as missed.
func TestSweepLooksBehindOpenEntries(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, fixture.JournalSchema(false))
	ctx, c := fixture.Context(t), env.Client
	fixture.CrashAfter(t, env, fixture.IsCommit, "p", "s")
	fixture.EmptyJournal(t, ctx, env)

	open := env.NewClient()
	tx := fixture.MustBegin(t, ctx, open)
	fixture.Must(t, tx.Set(fixture.Cell("q", "d"), []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("s", "d"), []byte("v")))
	var committed atomic.Bool
	env.FaultsOf(open).Handle(func(r percolatortest.Request) percolatortest.Action {
		if committed.Load() {
			return percolatortest.Crash
		}
		committed.Store(fixture.IsCommit(r))
		return percolatortest.Pass
	})
	_, _ = tx.Commit(ctx) // its owner dies, and leaves a lock on s
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 2 {
		t.Fatalf("%d locks, want two on s", n)
	}
	env.Clock.Advance(2 * time.Hour)
	if done := fixture.Sweep(t, ctx, c, model.SweepConfig{}); done.Missed != (model.SweepMissed{Locks: 1}) || done.Locks != 1 {
		t.Errorf("%+v", done)
	}
	fixture.WantNow(t, ctx, c, fixture.Cell("s", "c"), "crashed")
}
