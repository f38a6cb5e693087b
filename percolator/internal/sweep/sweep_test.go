package sweep_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// writeWithoutJournal leaves one row of each kind that an instance without a journal may hold.
func writeWithoutJournal(t testing.TB, ctx context.Context, env *percolatortest.Env, c *percolator.Client) {
	t.Helper()
	fixture.Put(t, ctx, c, "clean", "c", "1")
	fixture.Put(t, ctx, c, "overwritten", "c", "1")
	fixture.Put(t, ctx, c, "overwritten", "c", "2")
	fixture.Put(t, ctx, c, "deleted", "c", "1")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("deleted", "c")) }))
	fixture.Put(t, ctx, c, "notified", "seen", "1")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell("poked", "poke")) }))
	fixture.CrashAfter(t, env, nil, "undecided")
	fixture.CrashAfter(t, env, fixture.IsCommit, "committed", "committed-too")
	c.Flush(ctx)
}

// TestSweepBuildsTheJournal: what an instance without a journal holds is found by the journal once
// a sweep has ended, so collection by the journal leaves nothing.
func TestSweepBuildsTheJournal(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSweepBuildsTheJournal)
}

func testSweepBuildsTheJournal(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(true), fixture.ShortRetention)
	ctx, c := fixture.Context(t), env.Client
	fixture.WantErr(t, fixture.ErrOf(admin.New(c).NewSweeper(model.SweepConfig{RowsPerSecond: -1})), percolator.ErrInvalidArgument)
	w, err := admin.New(c).NewSweeper(model.SweepConfig{})
	fixture.Must(t, err)
	fixture.WantErr(t, fixture.ErrOf(w.Sweep(ctx)), percolator.ErrSchemaMismatch)

	writeWithoutJournal(t, ctx, env, c)
	fixture.Apply(t, ctx, env, fixture.JournalSchema(false))
	env.Clock.Advance(fixture.LockTTL)
	dispatched := fixture.Heard(c)
	done := fixture.Sweep(t, ctx, c, model.SweepConfig{})
	want := []string{"committed-too", "deleted", "notified", "overwritten", "poked", "undecided"}
	if done.Phase != model.SweepDone || done.Rows != 8 || done.Announced != 6 || done.Locks != 2 || done.Notifications != 2 || done.Missed.Sum() != 0 || done.Orphans != 0 {
		t.Errorf("%+v", done)
	}
	if names := fixture.NamedInJournal(t, ctx, c); !slices.Equal(names, want) {
		t.Errorf("the journal names %q", names)
	}
	if rows := dispatched(); !slices.Equal(rows, []string{"notified", "poked"}) {
		t.Errorf("dispatched: %q", rows)
	}
	fixture.WantCells(t, ctx, env, "swept", 7, 0, 9, 2)
	m := c.Engine().Meta
	if !m.ByJournal() {
		t.Fatal("the journal is not ready")
	}

	env.Clock.Advance(fixture.PastRetention)
	env.FaultsOf(c).Forget()
	fixture.Collect(t, ctx, c)
	for _, r := range env.FaultsOf(c).Requests() {
		if r.Method == percolatortest.ReadRows && r.Table == "t" && r.Rows == 0 {
			t.Errorf("collection has passed over a table: %v", r)
		}
	}
	fixture.WantCells(t, ctx, env, "collected", 5, 0, 5, 2)
	env.Audit(t)
}

// A table is dropped, and the sweeper's client learns of that, while a page of it is on its way.
func TestSweepBesideADrop(t *testing.T) {
	t.Parallel()
	for name, building := range map[string]bool{"checks": false, "builds": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { sweepBesideADrop(t, building) })
		})
	}
}

func sweepBesideADrop(t *testing.T, building bool) {
	env := percolatortest.New(t, fixture.JournalSchema(building), fixture.ShortRetention)
	ctx, sweeping := context.Background(), env.NewClient(fixture.ShortRetention)
	fixture.Put(t, ctx, env.Client, "notified", "seen", "1")
	if building {
		fixture.Apply(t, ctx, env, fixture.JournalSchema(false))
		fixture.Must(t, fixture.ErrOf(sweeping.Engine().Meta.Refresh(ctx)))
	}
	page, swept := percolatortest.NewHold(), make(chan error, 1)
	env.FaultsOf(sweeping).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.ReadRows && r.Table == "t" }, page.Answer()))
	go func() {
		w, err := admin.New(sweeping).NewSweeper(model.SweepConfig{})
		if err == nil {
			_, err = w.Sweep(ctx)
		}
		swept <- err
	}()
	time.Sleep(catalog.DrainTime(env.Client.Schema().Timing) - time.Second)
	page.Wait(t, 1)
	left := *env.Client.Schema()
	left.Tables = slices.DeleteFunc(slices.Clone(left.Tables), func(table percolator.Table) bool { return table.Name == "t" })
	without := admin.DropOptions{ClientOptions: env.Options(), Wait: func(context.Context, time.Duration) error { return nil }}
	fixture.Must(t, fixture.ErrOf(admin.New(env.Client).DropFromSchema(ctx, &left, without)))
	fixture.Must(t, fixture.ErrOf(sweeping.Engine().Meta.Refresh(ctx)))
	page.Release()
	if err := <-swept; err != nil && !errors.Is(err, percolator.ErrSchemaMismatch) { // the next request finds it deleted
		t.Error(err)
	}
	fixture.Sweep(t, ctx, sweeping, model.SweepConfig{})
}

// A sweep that began within a table which was dropped since comes to its end.
func TestSweepThatBeganInADroppedTable(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, fixture.JournalSchema(false), fixture.ShortRetention)
		ctx := context.Background()
		fixture.Plant(t, ctx, env, "percolator_meta", meta.SweepRow, "meta", "state", int64(layout.CellTime(1)), `{"Phase":"rows","Table":"a","First":{"Table":"gone","Row":"bQ=="}}`)
		if done := fixture.Sweep(t, ctx, env.Client, model.SweepConfig{}); done.Phase != model.SweepDone {
			t.Errorf("%+v", done)
		}
	})
}

// A cycle whose safepoint is below the announcements of the sweep goes on by passes.
func TestCollectionJustAfterASweep(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionJustAfterASweep)
}

func testCollectionJustAfterASweep(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(true), fixture.ShortRetention)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "1")
	fixture.Put(t, ctx, c, "r", "c", "2")
	env.Clock.Advance(fixture.PastRetention)
	fixture.Apply(t, ctx, env, fixture.JournalSchema(false))
	fixture.Sweep(t, ctx, c, model.SweepConfig{})
	if col := fixture.Collect(t, ctx, c); col.Versions != 2 {
		t.Errorf("%+v", col)
	}
}

// TestSweepChecks: a sweep counts what no entry leads to, once it is an hour old, and has the
// journal lead to it. Where the journal is sound it counts nothing.
func TestSweepChecks(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSweepChecks)
}

func testSweepChecks(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(false), fixture.ShortRetention)
	ctx, c := fixture.Context(t), env.Client
	writeWithoutJournal(t, ctx, env, c)
	env.Clock.Advance(2 * time.Hour)
	if done := fixture.Sweep(t, ctx, c, model.SweepConfig{}); done.Phase != model.SweepDone || done.Announced != 0 || done.Missed.Sum() != 0 || done.Orphans != 0 || done.Rows != 8 {
		t.Errorf("with a sound journal: %+v", done)
	}
	fixture.EmptyJournal(t, ctx, env)
	dispatched := fixture.Heard(c)
	done := fixture.Sweep(t, ctx, c, model.SweepConfig{})
	if done.Missed != (model.SweepMissed{Locks: 1, Notifications: 2}) || done.Orphans != 1 || done.Announced != 4 || done.Locks != 2 {
		t.Errorf("with an empty one: %+v", done)
	}
	if rows := dispatched(); !slices.Equal(rows, []string{"notified", "poked"}) {
		t.Errorf("dispatched: %q", rows)
	}
	if done := fixture.Sweep(t, ctx, c, model.SweepConfig{}); done.Missed.Sum() != 0 || done.Announced != 0 {
		t.Errorf("the next one: %+v", done)
	}

	fixture.EmptyJournal(t, ctx, env)
	fixture.Collect(t, ctx, c) // it does not know of the garbage
	done = fixture.Sweep(t, ctx, c, model.SweepConfig{})
	if done.Missed != (model.SweepMissed{Notifications: 2, Garbage: 2}) || done.Orphans != 1 { // the marker
		t.Errorf("after a cycle: %+v", done)
	}
}

// A sweep whose process dies is continued where it was, by whoever comes after the lease; until
// then nobody else sweeps. Wherever it begins, it sees every row.
func TestSweepGoesOn(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testSweepGoesOn)
}

func testSweepGoesOn(t *testing.T) {
	s := fixture.JournalSchema(true)
	s.Tables = append(s.Tables, percolator.Table{Name: "a"}, percolator.Table{Name: "z", Splits: []string{"row-000300", "row-000600"}})
	env := percolatortest.New(t, s)
	ctx := fixture.Context(t)
	const rows = 1300
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) (err error) {
		for i := range rows {
			err = errors.Join(err, tx.Set(percolator.Cell{Table: []string{"a", "t", "z"}[i%3], Row: fixture.Key(i), Column: "c"}, []byte("1")))
		}
		return err
	}))
	env.Client.Flush(ctx)
	s.DisableJournal = false
	fixture.Apply(t, ctx, env, s)

	dying := env.NewClient()
	w, err := admin.New(dying).NewSweeper(model.SweepConfig{Lease: time.Second, RowsPerSecond: 2000, Progress: func(p model.Sweep) {
		if p.Rows >= 600 {
			env.FaultsOf(dying).Crash()
		}
	}})
	fixture.Must(t, err)
	if _, err := w.Sweep(ctx); err == nil {
		t.Fatal("the sweep came to its end")
	}
	w, err = admin.New(env.Client).NewSweeper(model.SweepConfig{})
	fixture.Must(t, err)
	fixture.WantErr(t, fixture.ErrOf(w.Sweep(ctx)), admin.ErrLeased)
	env.Clock.Advance(2 * time.Second)
	before, err := admin.New(env.Client).Sweep(ctx)
	fixture.Must(t, err)
	done := fixture.Sweep(t, ctx, env.Client, model.SweepConfig{Wait: func(context.Context, time.Duration) error { return errors.New("waits again") }})
	if done.Phase != model.SweepDone || done.Started != before.Started || done.Rows < rows || done.Rows > rows+600 {
		t.Errorf("%+v after %+v", done, before)
	}
	if !env.Client.Engine().Meta.ByJournal() {
		t.Error("the journal is not ready")
	}
	for i := range 8 { // from other places
		if done := fixture.Sweep(t, ctx, env.Client, model.SweepConfig{}); done.Rows != rows {
			t.Errorf("sweep %d: %+v", i, done)
		}
	}
}

// A client that sweeps by itself does so when the journal is building, and an interval after the
// last sweep began.
func TestSweeperRuns(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSweeperRuns)
}

func testSweeperRuns(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(true))
	ctx, cancel := context.WithCancel(fixture.Context(t))
	w, err := admin.New(env.Client).NewSweeper(model.SweepConfig{Interval: 2 * time.Second})
	fixture.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	fixture.Apply(t, ctx, env, fixture.JournalSchema(false))
	fixture.Eventually(t, "the journal is ready", env.Client.Engine().Meta.ByJournal)
	first, err := admin.New(env.Client).Sweep(ctx)
	fixture.Must(t, err)
	fixture.Eventually(t, "the next sweep", func() bool {
		now, err := admin.New(env.Client).Sweep(ctx)
		return err == nil && now.Building == "" && now.Started > first.Started && now.Phase == model.SweepDone
	})
	cancel()
	fixture.Must(t, <-ended)
}

// A transaction that began without a journal and is alive while the sweep passes is not lost: the
// sweep waits for its end, or the collector resolves it.
func TestSweepMeetsAnOldLock(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSweepMeetsAnOldLock)
}

func testSweepMeetsAnOldLock(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(true), fixture.ShortRetention)
	ctx, c := fixture.Context(t), env.Client
	fixture.CrashAfter(t, env, fixture.IsCommit, "p", "s") // its TTL runs for longer than the sweep waits
	fixture.Apply(t, ctx, env, fixture.JournalSchema(false))
	done := fixture.Sweep(t, ctx, c, model.SweepConfig{})
	if done.Announced == 0 || !slices.Contains(fixture.NamedInJournal(t, ctx, c), "s") {
		t.Errorf("%+v; named: %q", done, fixture.NamedInJournal(t, ctx, c))
	}
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, c)
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks are left", n)
	}
	fixture.WantNow(t, ctx, c, fixture.Cell("s", "c"), "crashed")
}

// A sweep that checks ends when the journal is turned off, or built again, meanwhile: what commits
// without an entry then is not missed by the journal.
func TestSweepWhileTheJournalIsTurnedOff(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSweepWhileTheJournalIsTurnedOff)
}

func testSweepWhileTheJournalIsTurnedOff(t *testing.T) {
	s := fixture.JournalSchema(false)
	s.Tables = append(s.Tables, percolator.Table{Name: "z"})
	env := percolatortest.New(t, s)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "1")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "z", Row: "r", Column: "c"}, []byte("1"))
	}))
	off, pages := *s, 0
	off.DisableJournal = true
	w, err := admin.New(c).NewSweeper(model.SweepConfig{Progress: func(p model.Sweep) {
		if pages++; pages != 1 {
			return
		}
		fixture.Apply(t, ctx, env, &off)
		fixture.Eventually(t, "the client knows that there is no journal", func() bool { return !c.Engine().Meta.Journaled() })
		fixture.Put(t, ctx, c, "s", "seen", "1")
		fixture.Must(t, c.Flush(ctx))
		env.Clock.Advance(2 * time.Hour)
		fixture.Apply(t, ctx, env, s)
		fixture.Eventually(t, "the client knows of the journal", c.Engine().Meta.Journaled)
	}})
	fixture.Must(t, err)
	done, err := w.Sweep(ctx)
	if !errors.Is(err, percolator.ErrConflict) || done.Missed.Sum() != 0 || c.Engine().Store.Count.FoundBySweep.Load() != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if done := fixture.Sweep(t, ctx, c, model.SweepConfig{}); done.Building == "" || done.Missed.Sum() != 0 || done.Notifications != 1 {
		t.Errorf("the one that builds: %+v", done)
	}
}
