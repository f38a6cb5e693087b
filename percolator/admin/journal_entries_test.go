package admin_test

import (
	"github.com/gopercolator/percolator/percolator/model"

	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// wantEntries asserts how many rows of the journal hold entries.
func wantEntries(t *testing.T, ctx context.Context, env *percolatortest.Env, what string, want int) {
	t.Helper()
	if rows, _ := streamsLeft(t, ctx, env); rows != want {
		t.Errorf("%s: %d rows of the journal hold entries, want %d", what, rows, want)
	}
}

// A process that was stopped with a lock in its hand writes it between the resolution and the
// erasing. The entry stays until the next cycle has resolved it (J7).
func TestEntryStaysWithItsLock(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEntryStaysWithItsLock)
}

func testEntryStaysWithItsLock(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	fixture.CrashAfter(t, env, nil, "r")
	row, err := env.Store().Open("t").ReadRow(ctx, "r", bigtable.RowFilter(bigtable.FamilyFilter("lock")))
	if err != nil || len(row["lock"]) != 1 {
		t.Fatalf("%v, %v", row, err)
	}
	lock := row["lock"][0]
	env.Clock.Advance(fixture.PastRetention)
	planted := false
	_, err = fixture.NewCollector(t, env.Client, admin.CollectorConfig{Progress: func(col admin.Collection) {
		if col.Phase == model.CollectionErase && !planted {
			planted = true
			fixture.Plant(t, ctx, env, "t", "r", "lock", "c", int64(lock.Timestamp), string(lock.Value))
		}
	}}).Collect(ctx)
	fixture.Must(t, err)
	wantEntries(t, ctx, env, "with the lock", 1)
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, env.Client); col.Locks != 1 {
		t.Errorf("collected %+v, want the lock resolved", col)
	}
	wantEntries(t, ctx, env, "without the lock", 0)
	env.Audit(t, fixture.Collected)
}

// A transaction that began below the watermark and committed above it makes garbage later: its
// entry stays until then (J7).
func TestEntryStaysWithARecordAboveTheWatermark(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEntryStaysWithARecordAboveTheWatermark)
}

func testEntryStaysWithARecordAboveTheWatermark(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "1")
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("2")))
	env.Clock.Advance(8 * time.Second)
	commitTS := fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.Retention - 4*time.Second)
	col := fixture.Collect(t, ctx, c)
	if col.Safepoint <= tx.StartTimestamp() || col.Safepoint >= commitTS || col.Versions != 0 {
		t.Fatalf("collected %+v, want a safepoint between %d and %d, and nothing erased", col, tx.StartTimestamp(), commitTS)
	}
	wantEntries(t, ctx, env, "with the record above the watermark", 1)
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Versions != 2 {
		t.Errorf("collected %+v, want the first version and its record", col)
	}
	wantEntries(t, ctx, env, "in the end", 0)
	env.Audit(t, fixture.Collected)
}

// A weak notification without a transaction may be above the watermark although its entry is
// below. The entry stays while the notification does (J7).
func TestEntryStaysWithAWeakNotificationAboveTheWatermark(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEntryStaysWithAWeakNotificationAboveTheWatermark)
}

func testEntryStaysWithAWeakNotificationAboveTheWatermark(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	slow, hold := env.NewClient(fixture.ShortRetention), percolatortest.NewHold()
	env.FaultsOf(slow).HandleJournal(func(percolatortest.Request) percolatortest.Action { return hold })
	ended := make(chan error, 1)
	go func() {
		ended <- fixture.Update(ctx, slow, func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell("r", "poke")) })
	}()
	hold.Wait(t, 1) // the entry has its timestamp
	env.Clock.Advance(8 * time.Second)
	hold.Release()
	fixture.Must(t, <-ended)
	fixture.Must(t, slow.Flush(ctx))
	env.Clock.Advance(fixture.Retention - 4*time.Second)
	if col := fixture.Collect(t, ctx, env.Client); col.Dispatched != 0 {
		t.Fatalf("collected %+v, want a safepoint below the notification", col)
	}
	wantEntries(t, ctx, env, "with the notification", 1)
	now, err := env.Client.Engine().Clock.Next(ctx)
	fixture.Must(t, err)
	fixture.Must(t, errors.Join(admin.New(env.Client).ClearNotification(ctx, fixture.Cell("r", "poke"), now), env.Client.Flush(ctx)))
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, env.Client)
	wantEntries(t, ctx, env, "without the notification", 0)
}

// A deletion that a parked observer has yet to see stays, and its entry with it (J7): nothing else
// leads to the tombstone once the observer has seen it.
func TestEntryStaysWithADeletionThatIsParked(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEntryStaysWithADeletionThatIsParked)
}

func testEntryStaysWithADeletionThatIsParked(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	at := fixture.Cell("r", "seen")
	fixture.Put(t, ctx, c, "r", "seen", "v")
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Delete(at))
	parked := model.ObserverState{Cell: at, Observer: "O", Through: fixture.MustCommit(t, ctx, tx), Attempts: 3, Observers: []string{"O"}}
	fixture.Must(t, errors.Join(c.Engine().Commits.SetObserverStates(ctx, parked), c.Flush(ctx)))
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Tombstones != 0 || col.Postponed != 1 || col.Dispatched != 0 {
		t.Errorf("collected %+v, want the deletion postponed", col)
	}
	if rows, _ := streamsLeft(t, ctx, env); rows == 0 {
		t.Error("no entry leads to the deletion")
	}
	fixture.Must(t, admin.New(c).ClearNotification(ctx, at, parked.Through))
	fixture.Must(t, errors.Join(c.Engine().Commits.ForgetObserverStates(ctx, parked), c.Flush(ctx)))
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Tombstones != 1 {
		t.Errorf("collected %+v, want the cell gone", col)
	}
	wantEntries(t, ctx, env, "in the end", 0)
	fixture.WantCells(t, ctx, env, "in the end", 0, 0, 0, 0)
}

// A row of the journal may begin with entries above the safepoint: another one in it is below, and
// leads to garbage (J6).
func TestCollectionReadsRowsOfMixedAge(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionReadsRowsOfMixedAge)
}

func testCollectionReadsRowsOfMixedAge(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "1")
	fixture.Put(t, ctx, c, "r", "c", "2")
	fixture.Must(t, c.Flush(ctx))
	fixture.EmptyJournal(t, ctx, env)
	old, err := c.Engine().Clock.Next(ctx)
	fixture.Must(t, err)
	env.Clock.Advance(fixture.Retention / 2)
	young, err := c.Engine().Clock.Next(ctx)
	fixture.Must(t, err)

	hold := percolatortest.NewHold()
	env.FaultsOf(c).HandleJournal(func(percolatortest.Request) percolatortest.Action { return hold })
	var all []*journal.Append
	for n := range 3 * journal.MaxStreams { // those that find no stream free share a row
		e := &model.JournalEntry{StartTS: young, Rows: []model.JournalName{{Table: "t", Key: "other"}}}
		if n == 2*journal.MaxStreams {
			e = &model.JournalEntry{StartTS: old, Rows: []model.JournalName{{Table: "t", Key: "r"}}}
		}
		a, err := c.Engine().Journal.Append(ctx, e)
		fixture.Must(t, err)
		all = append(all, a)
	}
	hold.Release()
	for _, a := range all {
		fixture.Must(t, a.Wait(ctx))
	}
	streams, err := journal.Streams(ctx, c.Engine().Store)
	fixture.Must(t, err)
	mixed := false
	for _, st := range streams {
		for rows, err := range journal.ReadStream(ctx, c.Engine().Store, st.ID, 1, 100) {
			fixture.Must(t, err)
			for _, row := range rows {
				at := slices.IndexFunc(row.Entries, func(e model.JournalEntry) bool { return e.StartTS == old })
				mixed = mixed || at > 0
			}
		}
	}
	if !mixed {
		t.Fatal("the entry below the safepoint has a row of its own")
	}

	env.Clock.Advance(fixture.Retention/2 + 5*time.Second)
	if col := fixture.Collect(t, ctx, c); col.Safepoint < old || col.Safepoint >= young || col.Versions != 2 {
		t.Errorf("collected %+v, want the first version and its record", col)
	}
}

// Parking is stored in the row only once the journal lists it: what is parked there and nowhere
// listed nobody would find.
func TestParkedIsListedFirst(t *testing.T) {
	t.Parallel()
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.NewClient()
	ts := fixture.Put(t, ctx, c, "r", "seen", "v")
	fixture.Must(t, c.Flush(ctx))
	env.FaultsOf(c).HandleJournal(func(percolatortest.Request) percolatortest.Action { return percolatortest.Crash })
	err := c.Engine().Commits.SetObserverStates(ctx, model.ObserverState{Cell: fixture.Cell("r", "seen"), Observer: "O", Through: ts, Observers: []string{"O"}})
	if err == nil || !env.FaultsOf(c).Crashed() {
		t.Fatalf("the client did not die: %v", err)
	}
	wantParked(t, ctx, env, 0, 1)
}

// What an operator does to notifications is in the journal before the rows change (J2): without an
// acknowledged entry nothing of it happens.
func TestOperatorsChangeNothingWithoutAnEntry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		column string // of the cell that is parked
		change func(context.Context, *admin.Admin, model.ObserverState) error
	}{
		"retry": {"poke", func(ctx context.Context, a *admin.Admin, s model.ObserverState) error { return a.RetryParked(ctx, s) }},
		"drop":  {"poke", func(ctx context.Context, a *admin.Admin, s model.ObserverState) error { return a.DropParked(ctx, s) }},
		"forget": {"seen", func(ctx context.Context, a *admin.Admin, _ model.ObserverState) error {
			return fixture.ErrOf(a.ForgetObserver(ctx, "t", "seen", "O", admin.ObserverOptions{}))
		}},
		"backfill": {"poke", func(ctx context.Context, a *admin.Admin, _ model.ObserverState) error {
			return fixture.ErrOf(a.BackfillObserver(ctx, "t", "seen", "O", admin.ObserverOptions{}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := fixture.NewCollectorEnv(t)
			ctx, c := fixture.Context(t), env.Client
			fixture.Put(t, ctx, c, "r", "seen", "v")
			fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell("r", "poke")) }))
			now, err := c.Engine().Clock.Next(ctx)
			fixture.Must(t, err)
			parked := model.ObserverState{Cell: fixture.Cell("r", test.column), Observer: "O", Through: now, Attempts: 3, Observers: []string{"O"}}
			fixture.Must(t, errors.Join(c.Engine().Commits.SetObserverStates(ctx, parked), c.Flush(ctx)))
			before := cellsIn(t, ctx, env, "r", "notify")
			operator := env.NewClient()
			env.FaultsOf(operator).HandleJournal(func(percolatortest.Request) percolatortest.Action { return percolatortest.Crash })
			if err := test.change(ctx, admin.New(operator), parked); err == nil || !env.FaultsOf(operator).Crashed() {
				t.Errorf("it has succeeded: %v", err)
			}
			if after := cellsIn(t, ctx, env, "r", "notify"); len(before) != 3 || !slices.Equal(after, before) {
				t.Errorf("the notify cells are %q, were %q", after, before)
			}
		})
	}
}

// cellsIn is the columns and timestamps of what a row of table t holds in a family.
func cellsIn(t *testing.T, ctx context.Context, env *percolatortest.Env, key, family string) (cells []string) {
	t.Helper()
	row, err := env.Store().Open("t").ReadRow(ctx, key, bigtable.RowFilter(bigtable.FamilyFilter(family)))
	fixture.Must(t, err)
	for _, it := range row[family] {
		cells = append(cells, fmt.Sprint(it.Column, it.Timestamp))
	}
	return cells
}
