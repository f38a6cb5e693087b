package backup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var observed = &percolator.Schema{Tables: []percolator.Table{
	{Name: "docs", Observed: []string{"in"}, Weak: []string{"again"}},
	{Name: "other"},
}, Timing: quick}

// acknowledge does what a worker does for an observer of docs/ROW/in that writes nothing.
func acknowledge(t *testing.T, c *percolator.Client, row string, names ...string) {
	t.Helper()
	ctx := testContext(t)
	for _, name := range names {
		_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
			ack, err := (*commit.Txn)(tx).Acknowledge(ctx, cell("docs", row, "in"), name, []string{"one", "two"})
			if err == nil && !ack.Run {
				return fmt.Errorf("%s has nothing to do for %s", name, row)
			}
			return err
		})
		must(t, err)
	}
	must(t, c.Flush(ctx))
}

func remove(t *testing.T, c *percolator.Client, row string) {
	t.Helper()
	_, err := c.Update(testContext(t), func(_ context.Context, tx *percolator.Txn) error { return tx.Delete(cell("docs", row, "in")) })
	must(t, err)
	must(t, c.Flush(testContext(t)))
}

func notify(t *testing.T, c *percolator.Client, rows ...string) {
	t.Helper()
	_, err := c.Update(testContext(t), func(_ context.Context, tx *percolator.Txn) (err error) {
		for _, row := range rows {
			err = errors.Join(err, tx.Notify(cell("docs", row, "again")))
		}
		return err
	})
	must(t, err)
	must(t, c.Flush(testContext(t)))
}

// crashedWriter commits docs/ROW/in and dies before the cell's lock has become a record.
func crashedWriter(t *testing.T, env *percolatortest.Env, row string) {
	t.Helper()
	c := env.NewClient()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	_, err := c.Update(testContext(t), func(_ context.Context, tx *percolator.Txn) error {
		return errors.Join(tx.Set(cell("other", row, "c"), []byte("primary")), tx.Set(cell("docs", row, "in"), []byte("v")))
	})
	must(t, err)
	_ = c.Flush(testContext(t))
}

// runs counts what a worker on c calls until nothing is left to do.
func runs(t *testing.T, c *percolator.Client) map[string]int {
	t.Helper()
	ctx := testContext(t)
	var mu sync.Mutex
	counted := map[string]int{}
	r := observers.NewRegistry()
	for _, name := range []string{"one", "two", "weak"} {
		column := "in"
		if name == "weak" {
			column = "again"
		}
		r.Observe(name, "docs", column, func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			mu.Lock()
			defer mu.Unlock()
			what := name + " " + ch.Cell.Row
			if ch.Deleted {
				what += " deleted"
			}
			counted[what]++
			return nil
		})
	}
	w, err := observers.NewWorker(c, r, observers.Config{DisableCollection: true})
	must(t, err)
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	must(t, w.WaitIdle(ctx))
	stop()
	must(t, <-ended)
	return counted
}

// What an observer has acknowledged it does not see again, and all that was pending at the snapshot
// it does: also what was run for between the snapshot and its reading.
func TestObserversGoOn(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testObserversGoOn)
}

func testObserversGoOn(t *testing.T) {
	env := percolatortest.New(t, observed)
	c, ctx := env.Client, testContext(t)
	v := values{}
	for _, row := range []string{"done", "half", "pending", "deletion pending", "deletion done", "deletion half", "late", "late half", "parked", "again done", "again late"} {
		v[cell("docs", row, "in")] = row
	}
	set(t, c, v)
	for _, row := range []string{"done", "deletion pending", "deletion done", "deletion half"} {
		acknowledge(t, c, row, "one", "two")
	}
	acknowledge(t, c, "half", "one")
	acknowledge(t, c, "late half", "two")
	for _, row := range []string{"deletion pending", "deletion done", "deletion half"} {
		remove(t, c, row)
	}
	acknowledge(t, c, "deletion done", "one", "two")
	acknowledge(t, c, "deletion half", "two")
	acknowledge(t, c, "again done", "one", "two")
	acknowledge(t, c, "again late", "one", "two")
	now, err := env.Oracle.Next(ctx)
	must(t, err)
	must(t, c.Engine().Commits.SetObserverStates(ctx, model.ObserverState{Cell: cell("docs", "parked", "in"), Observer: "one", Through: now, Attempts: 7,
		Reason: "no such thing", Since: time.Unix(1e9, 0).UTC(), Observers: []string{"one", "two"}}))
	notify(t, c, "weak", "weak late", "weak done")
	must(t, admin.New(c).ClearNotification(ctx, cell("docs", "weak done", "again"), now+1<<40))
	must(t, c.Flush(ctx))
	crashedWriter(t, env, "crashed")

	once := sync.Once{}
	opts := small
	opts.Concurrency = 1
	opts.Progress = func(backup.Progress) {
		once.Do(func() { // the snapshot stands, and nothing has been read yet
			acknowledge(t, c, "late", "one", "two")
			acknowledge(t, c, "late half", "one")
			set(t, c, values{cell("docs", "again done", "in"): "changed", cell("docs", "again late", "in"): "changed"})
			acknowledge(t, c, "again done", "one", "two")
			latest, err := env.Oracle.Next(ctx)
			must(t, err)
			must(t, admin.New(c).ClearNotification(ctx, cell("docs", "weak late", "again"), latest))
			must(t, c.Flush(ctx))
		})
	}
	store := backup.Dir(t.TempDir())
	m := run(t, c, store, opts)
	if m.Total.Weak != 2 || m.Total.Deletes != 2 {
		t.Errorf("%+v", m.Total)
	}
	r := restored(t, env, store)
	equal(t, contents(t, r), contents(t, c, percolator.AsOfTimestamp(m.Snapshot)))

	expected := map[string]int{
		"two half":    1,
		"one pending": 1, "two pending": 1,
		"one late": 1, "two late": 1,
		"one late half":                1,
		"one deletion pending deleted": 1, "two deletion pending deleted": 1, "one deletion half deleted": 1,
		"one crashed": 1, "two crashed": 1,
		"two parked": 1,
		"weak weak":  1, "weak weak late": 1,
	}
	if got := runs(t, r); !maps.Equal(got, expected) {
		for _, what := range slices.Sorted(maps.Keys(expected)) {
			if got[what] != expected[what] {
				t.Errorf("%q ran %d times, want %d", what, got[what], expected[what])
			}
		}
		t.Errorf("%v", got)
	}
	var parked []observers.Parked
	for p, err := range observers.ListParked(ctx, r, "docs") {
		must(t, err)
		parked = append(parked, p)
	}
	if len(parked) != 1 || parked[0].Attempts != 7 || parked[0].Reason != "no such thing" || parked[0].Observer != "one" {
		t.Errorf("parked: %+v", parked)
	}
	if got := runs(t, r); len(got) > 0 {
		t.Errorf("ran again: %v", got)
	}
}

// Without a hold, the erasure of a weak notification leaves nothing behind; and what it leaves
// under one (I21) goes with the next collection.
func TestTracesOfWeakNotifications(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testTracesOfWeakNotifications)
}

func testTracesOfWeakNotifications(t *testing.T) {
	env := percolatortest.New(t, observed)
	c, ctx := env.Client, testContext(t)
	written := func() bool {
		t.Helper()
		w, err := c.Engine().Reads.WrittenSince(store.InBackground(ctx), "docs", 1)
		must(t, err)
		return w
	}
	clear := func() {
		t.Helper()
		notify(t, c, "r")
		ts, err := env.Oracle.Next(ctx)
		must(t, err)
		must(t, admin.New(c).ClearNotification(ctx, cell("docs", "r", "again"), ts))
		must(t, c.Flush(ctx))
	}
	if clear(); written() {
		t.Error("a trace without a hold")
	}
	h, err := admin.New(c).TakeHold(ctx, 0, time.Hour, "test")
	must(t, err)
	if clear(); !written() {
		t.Error("no trace under a hold")
	}
	must(t, admin.New(c).ReleaseHold(ctx, h))
	env.Clock.Advance(2 * time.Hour)
	fixture.Collect(t, testContext(t), env.Client)
	if written() {
		t.Error("the trace was not collected")
	}
}

// A backup of an earlier time cannot know which weak notifications were pending then, and says so.
func TestEarlierTime(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEarlierTime)
}

func testEarlierTime(t *testing.T) {
	env := percolatortest.New(t, observed)
	c, ctx := env.Client, testContext(t)
	set(t, c, values{cell("docs", "r", "in"): "before"})
	snap, err := c.Snapshot(ctx)
	must(t, err)
	env.Clock.Advance(time.Minute)
	set(t, c, values{cell("docs", "r", "in"): "after", cell("docs", "s", "in"): "after"})
	opts := backup.Options{AsOf: snap.StartTimestamp()}
	_, err = backup.Run(ctx, c, backup.Dir(t.TempDir()), opts)
	expect(t, err, percolator.ErrInvalidArgument)
	opts.MissWeak = true
	store := backup.Dir(t.TempDir())
	if m := run(t, c, store, opts); !m.MissedWeak {
		t.Error("the manifest does not say so")
	}
	r := restored(t, env, store)
	equal(t, contents(t, r), values{cell("docs", "r", "in"): "before"})
	if got, want := runs(t, r), map[string]int{"one r": 1, "two r": 1}; !maps.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
	opts.AsOf += 1 << 40
	_, err = backup.Run(ctx, c, backup.Dir(t.TempDir()), opts)
	expect(t, err, percolator.ErrInvalidArgument)
}

// A transaction has its commit timestamp, below the snapshot, and has not yet written its weak
// notification when the backup begins. The backup waits for it, since it meets its lock, and finds
// the notification because it looks for those last.
func TestWeakNotificationOnItsWay(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testWeakNotificationOnItsWay)
}

func testWeakNotificationOnItsWay(t *testing.T) {
	env := percolatortest.New(t, observed)
	ctx := testContext(t)
	writer, reader := env.NewClient(), env.NewClient()
	onItsWay := percolatortest.NewHold()
	env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Table == "docs" {
			return onItsWay
		}
		return percolatortest.Pass
	})
	committed := make(chan error, 1)
	go func() {
		_, err := writer.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			return errors.Join(tx.Set(cell("other", "r", "c"), []byte("v")), tx.Notify(cell("docs", "w", "again")))
		})
		committed <- err
	}()
	onItsWay.Wait(t, 1)
	looks := 0
	env.FaultsOf(reader).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && r.Table == "other" {
			if looks++; looks == 2 { // it has met the lock, and looks again
				onItsWay.Release()
			}
		}
		return percolatortest.Pass
	})
	m := run(t, reader, newMemory(), backup.Options{MissWeak: true, Concurrency: 1}) // without the wait for traces
	must(t, <-committed)
	if m.Total.Values != 1 || m.Total.Weak != 1 {
		t.Errorf("%+v, want the value and the notification", m.Total)
	}
}

// A deletion that was pending at the snapshot is in the backup, although its observers have run
// since and it was collected before its row was read.
func TestPendingDeletionCollected(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testPendingDeletionCollected)
}

func testPendingDeletionCollected(t *testing.T) {
	env := percolatortest.New(t, observed)
	c, ctx := env.Client, testContext(t)
	set(t, c, values{cell("docs", "r", "in"): "v", cell("other", "r", "c"): "v"})
	acknowledge(t, c, "r", "one", "two")
	remove(t, c, "r")
	env.Clock.Advance(3 * 24 * time.Hour) // a backlog, or parked
	store := newMemory()
	var once sync.Once
	opts := small
	opts.Concurrency = 1
	opts.Progress = func(backup.Progress) {
		once.Do(func() {
			acknowledge(t, c, "r", "one", "two")
			fixture.Collect(t, testContext(t), env.Client)
		})
	}
	_ = ctx
	m := run(t, c, store, opts)
	t.Logf("%+v", m.Total)
	r := restored(t, env, store)
	want := map[string]int{"one r deleted": 1, "two r deleted": 1}
	if got := runs(t, r); !maps.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
}

// Under a hold, runs of a weak column leave one trace in its row, however many there are.
func TestTracesDoNotGrow(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, observed)
	c, ctx := env.Client, testContext(t)
	_, err := admin.New(c).TakeHold(ctx, 0, model.MaxHoldTTL, "somebody's report")
	must(t, err)
	for range 50 {
		notify(t, c, "r")
		ts, err := env.Oracle.Next(ctx)
		must(t, err)
		must(t, admin.New(c).ClearNotification(ctx, cell("docs", "r", "again"), ts))
		must(t, c.Flush(ctx))
	}
	row, err := env.Store().Open("docs").ReadRow(ctx, "r")
	must(t, err)
	if n := len(row["write"]); n > 1 {
		t.Errorf("%d traces of one cell; the newest says all", n)
	}
}

// While somebody may be exporting, the erasure of a weak notification leaves the one that came
// after the run.
func TestTraceLeavesLaterNotification(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, observed)
	ctx := testContext(t)
	_, err := admin.New(env.Client).TakeHold(ctx, 0, 0, "an export")
	must(t, err)
	c := env.NewClient() // knows of the hold
	notify(t, c, "r")
	run, err := env.Oracle.Next(ctx)
	must(t, err)
	notify(t, c, "r")
	at := cell("docs", "r", "again")
	must(t, admin.New(c).ClearNotification(ctx, at, run))
	must(t, c.Flush(ctx))
	if left, err := c.Engine().Reads.Notified(ctx, at); err != nil || !left {
		t.Errorf("a notification after the run is there: %v, %v", left, err)
	}
	later, err := env.Oracle.Next(ctx)
	must(t, err)
	must(t, admin.New(c).ClearNotification(ctx, at, later))
	must(t, c.Flush(ctx))
	if left, err := c.Engine().Reads.Notified(ctx, at); err != nil || left {
		t.Errorf("a notification of which everything was run is there: %v, %v", left, err)
	}
}
