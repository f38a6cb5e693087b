package gc_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A reader keeps its snapshot while the cell is overwritten often, as long as its hold
// lasts, and gets an error, never another value, when it does not.
func TestPinnedReader(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	bothWays(t, testPinnedReader)
}

func testPinnedReader(t *testing.T, env *percolatortest.Env) {
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "before")
	fixture.Put(t, ctx, c, "r", "c", "pinned")
	pinned, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	hold, err := admin.New(c).TakeHold(ctx, pinned.StartTimestamp(), 0, "a long report")
	fixture.Must(t, err)
	versions := fixture.Of(1000, 200)
	for i := range versions {
		fixture.Put(t, ctx, c, "r", "c", fmt.Sprint(i))
	}
	newest := fmt.Sprint(versions - 1)
	unpinned, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	env.Clock.Advance(fixture.PastRetention)

	if col := fixture.Collect(t, ctx, c); col.Safepoint != hold.Timestamp-1 || col.Versions != 2 {
		t.Errorf("collected %+v, want the first version and its record, up to %d", col, hold.Timestamp-1)
	}
	other := env.NewClient(fixture.ShortRetention)
	late, err := other.Snapshot(ctx, percolator.AsOfTimestamp(pinned.StartTimestamp()))
	fixture.Must(t, err) // beyond the retention, but held
	patient := env.NewClient()
	below, err := patient.Snapshot(ctx, percolator.AsOfTimestamp(pinned.StartTimestamp()))
	fixture.Must(t, err) // within its own, longer retention: only the safepoint ends it
	for _, s := range []*percolator.Snapshot{pinned, late, below} {
		fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "pinned")
	}
	fixture.WantValue(t, ctx, unpinned, fixture.Cell("r", "c"), newest)
	fixture.WantCells(t, ctx, env, "held", versions+1, 0, versions+1, 0)

	fixture.Must(t, admin.New(c).ReleaseHold(ctx, hold))
	fixture.Must(t, admin.New(c).ReleaseHold(ctx, hold))
	if col := fixture.Collect(t, ctx, c); col.Versions != 2*int64(versions) {
		t.Errorf("collected %+v", col)
	}
	fixture.WantCells(t, ctx, env, "released", 1, 0, 1, 0)
	for _, s := range []*percolator.Snapshot{late, unpinned, below} {
		_, err = s.Get(ctx, fixture.Cell("other row", "c")) // what it has read is in its cache
		fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
		fixture.WantErr(t, fixture.FirstError(s.Scan(ctx, "t", percolator.All())), percolator.ErrSnapshotTooOld)
	}
	_, err = c.Snapshot(ctx, percolator.AsOfTimestamp(pinned.StartTimestamp()))
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	_, err = admin.New(c).TakeHold(ctx, pinned.StartTimestamp(), 0, "")
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	_, err = admin.New(c).ExtendHold(ctx, hold, 0)
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	fixture.WantNow(t, ctx, c, fixture.Cell("r", "c"), newest)
}

// Locks that are older than the retention are resolved by their primaries before anything is
// removed, in tables of indexes as well.
func TestCollectionResolvesStrandedLocks(t *testing.T) {
	t.Parallel()
	bothWays(t, testCollectionResolvesStrandedLocks)
}

func testCollectionResolvesStrandedLocks(t *testing.T, env *percolatortest.Env) {
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "a", "seen", "old", "b", "seen", "old")
	fixture.Strand(t, ctx, env, fixture.Cell("a", "seen"), fixture.Cell("b", "seen"), fixture.City.Cell("p"))
	fixture.CrashAfter(t, env, nil, "c", "d") // before its commit point
	if n := fixture.CellsOf(t, ctx, env, "people.city", "lock"); n != 1 {
		t.Fatalf("%d locks in the index, want 1", n)
	}

	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Locks != 5 {
		t.Errorf("collected %+v, want 5 locks resolved", col)
	}
	for _, r := range []string{"a", "b"} {
		fixture.WantNow(t, ctx, c, fixture.Cell(r, "seen"), "stranded")
	}
	for _, r := range []string{"c", "d"} {
		fixture.WantNow(t, ctx, c, fixture.Cell(r, "c"), "")
	}
	if got := fixture.ListIndexNow(t, ctx, c, "city", percolator.All()); got != "stranded:p" {
		t.Errorf("the index lists %q", got)
	}
	// Of a and b one version; of c the marker that roll back placed on the primary, no older than
	// the lock: gone as well.
	fixture.WantCells(t, ctx, env, "collected", 2, 0, 2, 4)
}

// Phase two of a transaction arrives when its lock has been resolved, the cell deleted, and all of
// that collected. The record that it leaves has no data: it is read as absence, counted, and
// removed by the next cycle.
func TestPhaseTwoLandsAfterCollection(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testPhaseTwoLandsAfterCollection)
}

func testPhaseTwoLandsAfterCollection(t *testing.T) {
	env := fixture.NewCollectorEnv(t, fixture.ByPasses)
	ctx, c := fixture.Context(t), env.Client
	slow := env.NewClient(fixture.ShortRetention)
	held := percolatortest.NewHold()
	env.FaultsOf(slow).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.MutateRows }, held))
	tx := fixture.MustBegin(t, ctx, slow)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("a", "c"), []byte("v")), tx.Set(fixture.Cell("b", "seen"), []byte("v"))))
	fixture.MustCommit(t, ctx, tx)
	held.Wait(t, 1)
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("b", "seen")) }))
	clear, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.Must(t, admin.New(c).ClearNotification(ctx, fixture.Cell("b", "seen"), clear.StartTimestamp()))
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Tombstones != 1 || col.Postponed != 0 {
		t.Errorf("collected %+v, want the deleted cell gone", col)
	}
	fixture.WantCells(t, ctx, env, "collected", 1, 0, 1, 0)

	held.Release()
	fixture.WantCells(t, ctx, env, "late", 1, 0, 2, 1)
	fixture.WantNow(t, ctx, c, fixture.Cell("b", "seen"), "")
	fixture.Must(t, c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		n := 0
		for _, err := range s.Scan(ctx, "t", percolator.All()) {
			fixture.Must(t, err)
			n++
		}
		if n != 1 {
			t.Errorf("a scan finds %d cells", n)
		}
		return nil
	}))
	if n := c.Stats().LateRecords; n != 2 {
		t.Errorf("counted %d late records, want 2", n)
	}
	// Its notification finds no change to run for.
	tx = fixture.MustBegin(t, ctx, c)
	ack, err := (*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("b", "seen"), "O", []string{"O"})
	if err != nil || ack.Run || !ack.Finished {
		t.Errorf("Acknowledge: %+v, %v", ack, err)
	}
	fixture.Must(t, admin.New(c).ClearNotification(ctx, fixture.Cell("b", "seen"), tx.StartTimestamp()))
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, c)
	fixture.WantCells(t, ctx, env, "collected again", 1, 0, 1, 0)
}

// A deletion stays until every observer has seen it; then the tombstone goes with its
// acknowledgments.
func TestDeletionWaitsForItsObservers(t *testing.T) {
	t.Parallel()
	bothWays(t, testDeletionWaitsForItsObservers)
}

func testDeletionWaitsForItsObservers(t *testing.T, env *percolatortest.Env) {
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "seen", "v")
	acknowledge := func(want bool) {
		t.Helper()
		if fixture.Acknowledge(t, ctx, c, fixture.Cell("r", "seen"), "O") != want {
			t.Fatalf("the observer has a reason to run: %t", !want)
		}
	}
	acknowledge(true)
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("r", "seen")) }))
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Tombstones != 0 || col.Postponed != 1 {
		t.Errorf("collected %+v, want the deletion postponed", col)
	}
	fixture.WantCells(t, ctx, env, "behind", 0, 0, 2, 1) // the deletion and the acknowledgment of the put
	acknowledge(true)
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Tombstones != 1 {
		t.Errorf("collected %+v, want the cell gone", col)
	}
	fixture.WantCells(t, ctx, env, "acknowledged", 0, 0, 0, 0)
	acknowledge(false)
}

// An acknowledgment goes with its cell even where a writer of the cell died in between: its lock
// keeps the acknowledgment in one cycle, and its marker is no reason to keep it in the next.
func TestAcknowledgmentGoesAfterARollBack(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, env *percolatortest.Env) {
		ctx, c := fixture.Context(t), env.Client
		fixture.Put(t, ctx, c, "r", "seen", "v")
		fixture.Acknowledge(t, ctx, c, fixture.Cell("r", "seen"), "O")
		fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("r", "seen")) }))
		fixture.Acknowledge(t, ctx, c, fixture.Cell("r", "seen"), "O")
		fixture.Must(t, c.Flush(ctx))
		env.Clock.Advance(fixture.PastRetention)

		dying := env.NewClient(fixture.ShortRetention)
		tx := fixture.MustBegin(t, ctx, dying)
		fixture.Must(t, tx.Set(fixture.Cell("r", "seen"), []byte("never")))
		env.FaultsOf(dying).Handle(fixture.AtMost(1, fixture.IsCommit, percolatortest.Crash))
		if _, err := tx.Commit(ctx); err == nil {
			t.Fatal("the writer did not die")
		}
		fixture.Collect(t, ctx, c)
		fixture.WantCells(t, ctx, env, "locked", 1, 1, 1, 0) // the acknowledgment stays
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, c)
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, c)
		fixture.WantCells(t, ctx, env, "collected", 0, 0, 0, 0)
		env.Audit(t, fixture.Collected)
	})
}

// A hold that is taken while the safepoint is under way: one of them gives way, never both succeed.
func TestHoldAgainstAnnouncement(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testHoldAgainstAnnouncement)
}

func testHoldAgainstAnnouncement(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	snap, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.Put(t, ctx, c, "r", "c", "w")
	env.Clock.Advance(fixture.PastRetention)
	slow := env.NewClient(fixture.ShortRetention)
	announcement := percolatortest.NewHold()
	env.FaultsOf(slow).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool {
		return r.Method == percolatortest.CheckAndMutateRow && r.Table == "percolator_meta" && r.Row == "meta"
	}, announcement))
	done := make(chan error, 1)
	var col model.Collection
	go func() {
		var err error
		col, err = fixture.NewCollector(t, slow, model.CollectorConfig{}).Collect(ctx)
		done <- err
	}()
	announcement.Wait(t, 1)
	_, err = admin.New(c).TakeHold(ctx, snap.StartTimestamp(), time.Hour, "in time")
	fixture.Must(t, err)
	announcement.Release()
	fixture.Must(t, <-done)
	if col.Safepoint >= snap.StartTimestamp() {
		t.Errorf("collected up to %d, the hold is at %d", col.Safepoint, snap.StartTimestamp())
	}
	fixture.WantValue(t, ctx, snap, fixture.Cell("r", "c"), "v")

	// Holds expire by the oracle's clock.
	holds, err := admin.New(c).Holds(ctx)
	if err != nil || len(holds) != 1 || holds[0].Reason != "in time" {
		t.Fatalf("holds: %v, %v", holds, err)
	}
	longer, err := admin.New(c).ExtendHold(ctx, holds[0], 2*time.Hour)
	fixture.Must(t, err)
	env.Clock.Advance(time.Hour + time.Minute)
	if col := fixture.Collect(t, ctx, c); col.Safepoint >= snap.StartTimestamp() {
		t.Errorf("the extended hold did not last: collected up to %d", col.Safepoint)
	}
	env.Clock.Advance(time.Hour)
	if col := fixture.Collect(t, ctx, c); col.Safepoint <= longer.Timestamp {
		t.Errorf("an expired hold holds: collected up to %d", col.Safepoint)
	}
	if holds, err := admin.New(c).Holds(ctx); err != nil || len(holds) != 0 {
		t.Errorf("holds: %v, %v", holds, err)
	}
	fixture.WantCells(t, ctx, env, "expired", 1, 0, 1, 0)
}

// One collector at a time; and nothing is done when nothing is old enough.
func TestCollectorLease(t *testing.T) {
	t.Parallel()
	bothWays(t, testCollectorLease)
}

func testCollectorLease(t *testing.T, env *percolatortest.Env) {
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	env.Clock.Advance(fixture.PastRetention)
	var once sync.Once
	var second error
	g := fixture.NewCollector(t, c, model.CollectorConfig{Progress: func(col model.Collection) {
		once.Do(func() {
			if col.Holder == "" || col.Expires <= col.Updated || col.Phase != model.CollectionDrain {
				t.Errorf("the first word is %+v", col)
			}
			_, second = fixture.NewCollector(t, env.NewClient(fixture.ShortRetention), model.CollectorConfig{}).Collect(ctx)
		})
	}})
	first, err := g.Collect(ctx)
	fixture.Must(t, err)
	fixture.WantErr(t, second, admin.ErrLeased)
	if errors.Is(second, percolator.ErrLocked) {
		t.Error("no lock stood in the way:", second)
	}
	seen, err := admin.New(c).Collection(ctx)
	if err != nil || seen.Phase != model.CollectionDone || seen.Holder != "" || seen.Safepoint != first.Safepoint {
		t.Errorf("the state afterwards: %+v, %v", seen, err)
	}
	// With a hold right above the GC watermark the safepoint cannot move: there is no cycle.
	_, err = admin.New(c).TakeHold(ctx, first.Safepoint+1, 0, "")
	fixture.Must(t, err)
	before := len(env.FaultsOf(c).Requests())
	again, err := g.Collect(ctx)
	fixture.Must(t, err)
	if n := len(env.FaultsOf(c).Requests()) - before; again.Started != first.Started || n > 10 {
		t.Errorf("with nothing to do %d requests were sent: %+v", n, again)
	}
}

// A lock that cannot be judged stops collection before it removes what the lock may depend on.
func TestCorruptLockStopsCollection(t *testing.T) {
	t.Parallel()
	bothWays(t, testCorruptLockStopsCollection)
}

func testCorruptLockStopsCollection(t *testing.T, env *percolatortest.Env) {
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	fixture.Put(t, ctx, c, "r", "c", "w")
	fixture.CrashAfter(t, env, nil, "r") // an entry that is open leads to the row
	fixture.Plant(t, ctx, env, "t", "r", "lock", "x", 5000, "nonsense")
	env.Clock.Advance(fixture.PastRetention)
	_, err := fixture.NewCollector(t, c, model.CollectorConfig{}).Collect(ctx)
	fixture.WantErr(t, err, percolator.ErrCorrupt)
	if n := fixture.CellsOf(t, ctx, env, "t", "write"); n < 2 {
		t.Errorf("%d records are left, want those of both versions", n)
	}
	mut := bigtable.NewMutation()
	mut.DeleteCellsInColumn("lock", "x")
	fixture.Must(t, env.Store().Open("t").Apply(ctx, "r", mut))
	fixture.Collect(t, ctx, c)
	fixture.WantCells(t, ctx, env, "repaired", 1, 0, 1, 0)
}

// A collector that lost its lease while it was stopped continues beside its successor, and does no
// harm.
func TestStoppedCollectorContinues(t *testing.T) {
	t.Parallel()
	bothWays(t, testStoppedCollectorContinues)
}

func testStoppedCollectorContinues(t *testing.T, env *percolatortest.Env) {
	ctx := fixture.Context(t)
	writeGarbage(t, ctx, env)
	stopped := env.NewClient(fixture.ShortRetention)
	held := percolatortest.NewHold()
	env.FaultsOf(stopped).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { // its first erasure
		return r.Method == percolatortest.MutateRows && r.Table == "t"
	}, held.Answer()))
	done := make(chan error, 1)
	go func() {
		_, err := fixture.NewCollector(t, stopped, model.CollectorConfig{}).Collect(ctx)
		done <- err
	}()
	held.Wait(t, 1)
	env.Clock.Advance(2 * time.Minute)
	fixture.Collect(t, ctx, env.Client)
	fixture.Put(t, ctx, env.Client, "gone", "c", "again")
	held.Release()
	// It finds out by its lease, or because its request was longer under way than any may be.
	if err := <-done; !errors.Is(err, admin.ErrLeased) && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("gone", "c"), "again")
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("kept", "c"), "4")
}

// More rows than a page: the position moves forward only, and a successor goes on where the first
// one was.
func TestCollectionIsResumed(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testCollectionIsResumed)
}

func testCollectionIsResumed(t *testing.T) {
	env := fixture.NewCollectorEnv(t, fixture.ByPasses, func(s *percolator.Schema) {
		s.Tables = s.Tables[:1] // progress names the first table that is not done: this one
	})
	ctx, c := fixture.Context(t), env.Client
	const rows = 1500
	for range 2 {
		tx := fixture.MustBegin(t, ctx, c)
		for i := range rows {
			fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("v")))
		}
		fixture.MustCommit(t, ctx, tx)
		fixture.Must(t, c.Flush(ctx))
	}
	env.Clock.Advance(fixture.PastRetention)
	stop, cancel := context.WithCancel(ctx)
	var last string
	g := fixture.NewCollector(t, env.NewClient(fixture.ShortRetention), model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase == model.CollectionErase && col.Table == "t" {
			if col.Row < last {
				t.Errorf("went from %q back to %q", last, col.Row)
			}
			last = col.Row
			cancel()
		}
	}})
	_, err := g.Collect(stop)
	fixture.WantErr(t, err, context.Canceled)
	left, err := admin.New(c).Collection(ctx)
	if err != nil || left.Phase != model.CollectionErase || left.Row == "" || left.Rows == 0 || left.Rows >= rows {
		t.Fatalf("left behind: %+v, %v", left, err)
	}
	col := fixture.Collect(t, ctx, c)
	fixture.WantCells(t, ctx, env, "resumed", rows, 0, rows, 0)
	if col.Safepoint < left.Safepoint {
		t.Errorf("the GC watermark went back: %+v after %+v", col, left)
	}
}

// A collector that loses every announcement to a new hold has met a conflict, not a lock.
func TestAnnouncementsThatHoldsOvertake(t *testing.T) {
	t.Parallel()
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.NewClient(fixture.ShortRetention)
	env.Clock.Advance(fixture.PastRetention)
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	holds := 0
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.CheckAndMutateRow && r.Table == "percolator_meta" && r.Row != "collector" {
			holds++ // each one older than the safepoint that is about to be announced
			_, err := admin.New(env.Client).TakeHold(ctx, now.Add(-time.Duration(holds)*time.Hour), 0, "")
			fixture.Must(t, err)
		}
		return percolatortest.Pass
	})
	_, err = fixture.NewCollector(t, c, model.CollectorConfig{}).Collect(ctx)
	fixture.WantErr(t, err, percolator.ErrConflict)
	if errors.Is(err, percolator.ErrLocked) || holds != 8 {
		t.Errorf("after %d holds: %v", holds, err)
	}
}
