package gc_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A process that was stopped with a lock in its hand writes it between the resolution and the
// erasing. Who erases resolves it (J12), so that the entry goes, with the garbage of the cell.
func TestStrayLockIsResolved(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) { testStrayLock(t, "", 0) })
}

// A lock that cannot be judged keeps its entry and what its cell holds (J7).
func TestEntryStaysWithItsLock(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) { testStrayLock(t, "nowhere", 1) })
}

// testStrayLock has a lock of a dead transaction written again while the cycle erases, with its
// primary in another table if that is not empty.
func testStrayLock(t *testing.T, primary string, entries int) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	fixture.CrashAfter(t, env, nil, "r")
	row, err := env.Store().Open("t").ReadRow(ctx, "r", bigtable.RowFilter(bigtable.FamilyFilter("lock")))
	if err != nil || len(row["lock"]) != 1 {
		t.Fatalf("%v, %v", row, err)
	}
	lock := row["lock"][0]
	record, err := layout.DecodeLock(int64(lock.Timestamp), lock.Value)
	fixture.Must(t, err)
	record.Primary.Table = cmp.Or(primary, record.Primary.Table)
	env.Clock.Advance(fixture.PastRetention)
	planted := false
	_, err = fixture.NewCollector(t, env.Client, model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase == model.CollectionErase && !planted {
			planted = true
			fixture.Plant(t, ctx, env, "t", "r", "lock", "c", int64(lock.Timestamp), string(record.Encode()))
		}
	}}).Collect(ctx)
	fixture.Must(t, err)
	fixture.WantEntries(t, ctx, env, "with the lock", entries)
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != entries {
		t.Errorf("%d locks are left, want %d", n, entries)
	}
	if entries > 0 {
		mut := bigtable.NewMutation()
		mut.DeleteCellsInColumn("lock", "c")
		fixture.Must(t, env.Store().Open("t").Apply(ctx, "r", mut))
	}
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, env.Client)
	fixture.WantEntries(t, ctx, env, "without the lock", 0)
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
	fixture.WantEntries(t, ctx, env, "with the record above the watermark", 1)
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Versions != 2 {
		t.Errorf("collected %+v, want the first version and its record", col)
	}
	fixture.WantEntries(t, ctx, env, "in the end", 0)
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
	fixture.WantEntries(t, ctx, env, "with the notification", 1)
	now, err := env.Client.Engine().Clock.Next(ctx)
	fixture.Must(t, err)
	fixture.Must(t, errors.Join(admin.New(env.Client).ClearNotification(ctx, fixture.Cell("r", "poke"), now), env.Client.Flush(ctx)))
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, env.Client)
	fixture.WantEntries(t, ctx, env, "without the notification", 0)
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
	if fixture.CountJournal(t, ctx, env).Entries == 0 {
		t.Error("no entry leads to the deletion")
	}
	fixture.Must(t, admin.New(c).ClearNotification(ctx, at, parked.Through))
	fixture.Must(t, errors.Join(c.Engine().Commits.ForgetObserverStates(ctx, parked), c.Flush(ctx)))
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Tombstones != 1 {
		t.Errorf("collected %+v, want the cell gone", col)
	}
	fixture.WantEntries(t, ctx, env, "in the end", 0)
	fixture.WantCells(t, ctx, env, "in the end", 0, 0, 0, 0)
}
