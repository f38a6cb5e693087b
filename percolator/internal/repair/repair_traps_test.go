package repair_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// A repair goes only where the tables have been, and beside nothing else.
func TestRepairIsRefused(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairIsRefused)
}

func testRepairIsRefused(t *testing.T) {
	s := newTorn(t)
	s.pay(s.Client, "6", "4")
	s.now()
	refused := func(to tso.Timestamp, want error) {
		t.Helper()
		_, err := s.admin.Repair(s.ctx, model.RepairOptions{To: to})
		fixture.WantErr(t, err, want)
	}
	refused(0, percolator.ErrInvalidArgument)
	refused(s.to.Add(time.Hour), percolator.ErrInvalidArgument)
	refused(s.hold.Timestamp-1, percolator.ErrInvalidArgument) // 0, as nothing was ever collected

	broken, interrupt := context.WithCancel(s.ctx)
	_, err := s.admin.Repair(broken, model.RepairOptions{To: s.to, Waiting: func(time.Duration) { interrupt() }})
	fixture.WantErr(t, err, context.Canceled)
	refused(s.to-1, admin.ErrRepairing)
	_, err = transfer.BeginRestore(s.ctx, s.Client.Engine(), "backup", nil, nil)
	fixture.WantErr(t, err, admin.ErrRepairing)
	fixture.WantErr(t, transfer.AbandonRestore(s.ctx, s.Client.Engine()), admin.ErrRepairing)
	fixture.WantErr(t, fixture.ErrOf(s.get(u("a"))), admin.ErrRepairing)
	r := s.repair()
	s.wants("6", "4")

	refused(s.to+1, percolator.ErrSnapshotTooOld) // the first repair has removed it
	fixture.Must(t, s.admin.ReleaseHold(s.ctx, s.hold))
	s.pay(s.Client, "5", "5")
	to, err := s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	refused(to, admin.ErrNotHeld) // and the fence is gone again
	s.wants("5", "5")
	r, err = s.admin.Repair(s.ctx, model.RepairOptions{To: to, WithoutHold: true})
	fixture.Must(t, err)
	if r.Floor != to-1 || len(r.Weak) != 1 {
		t.Errorf("%+v", r)
	}
	s.wants("5", "5")

	// And not while a restore is unfinished.
	fence, err := json.Marshal(meta.Fence{ID: "backup", Started: time.Now()})
	fixture.Must(t, err)
	fixture.Plant(t, s.ctx, s.Env, "percolator_meta", "meta", "meta", "restore", 1000, string(fence))
	refused(to, admin.ErrRestoring)
}

// What began before a repair ends neither with a commit nor with an answer from what is gone.
func TestRepairOfWhatOthersHaveInTheirHands(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfWhatOthersHaveInTheirHands)
}

func testRepairOfWhatOthersHaveInTheirHands(t *testing.T) {
	s := newTorn(t)
	s.pay(s.Client, "6", "4")
	s.now()
	s.pay(s.Client, "1", "9")
	old := fixture.MustBegin(t, s.ctx, s.Client)
	fixture.WantValue(t, s.ctx, old, u("a"), "1")
	fixture.Must(t, old.Set(u("b"), []byte("10")))
	stale, err := s.Client.Snapshot(s.ctx)
	fixture.Must(t, err)
	fixture.WantValue(t, s.ctx, stale, u("a"), "1")
	r := s.repair()
	_, err = old.Commit(s.ctx)
	if !errors.Is(err, percolator.ErrConflict) && !errors.Is(err, percolator.ErrSnapshotTooOld) {
		t.Errorf("a transaction from before the repair: %v", err)
	}
	_, err = stale.Get(s.ctx, u("b"))
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	_, err = s.Client.Snapshot(s.ctx, percolator.AsOfTimestamp(r.Until))
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	at, err := s.Client.Snapshot(s.ctx, percolator.AsOfTimestamp(s.to))
	fixture.Must(t, err)
	fixture.WantValue(t, s.ctx, at, u("b"), "4")
	s.wants("6", "4")
}

// While a repair is under way nobody resolves a lock, and nobody collects (I20).
func TestRepairKeepsResolversAndCollectorsOut(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairKeepsResolversAndCollectorsOut)
}

func testRepairKeepsResolversAndCollectorsOut(t *testing.T) {
	s := newTorn(t)
	s.pay(s.Client, "6", "4")
	s.now()
	tx := fixture.MustBegin(t, s.ctx, s.dead())
	fixture.Must(t, tx.Set(u("a"), []byte("1")))
	fixture.Must(t, tx.Set(u("b"), []byte("9")))
	fixture.MustCommit(t, s.ctx, tx)
	other := s.NewClient()
	g := fixture.NewCollector(t, other, admin.CollectorConfig{})
	var look sync.Once
	looked := false
	s.repair(func(o *model.RepairOptions) {
		o.Progress = func(r model.RepairReport) {
			if r.Phase == model.RepairResolve {
				look.Do(func() { looked = s.refusesOthers(other, g) })
			}
		}
	})
	if !looked {
		t.Error("nobody looked")
	}
	s.wants("6", "4")
}

// refusesOthers has another client resolve every lock of u, and collect, which a repair refuses.
func (s *torn) refusesOthers(other *percolator.Client, g *admin.Collector) bool {
	locks := 0
	for p, err := range admin.New(other).ScanPending(s.ctx, "u", percolator.All()) {
		if err != nil {
			s.Error(err)
			return false
		}
		for _, l := range p.Locks {
			locks++
			_, err := admin.New(other).ResolveLock(s.ctx, l)
			fixture.WantErr(s, err, admin.ErrRepairing)
		}
	}
	_, err := g.Collect(s.ctx)
	fixture.WantErr(s, err, admin.ErrRepairing)
	return locks > 0
}

// The oracle hands out nothing at or below what is in the tables before anybody may write again.
func TestRepairRaisesTheOracle(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairRaisesTheOracle)
}

func testRepairRaisesTheOracle(t *testing.T) {
	s := newTorn(t)
	s.pay(s.Client, "6", "4")
	s.now()
	ahead, err := s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	ahead = ahead.Add(10 * time.Minute)
	fixture.Plant(t, s.ctx, s.Env, "u", "a", "data", "n", cellTime(ahead), "newer than the oracle")
	r, err := s.admin.Repair(s.ctx, model.RepairOptions{To: s.to})
	fixture.WantErr(t, err, admin.ErrOracleBehind)
	if !r.Unfinished {
		t.Error("the report does not tell that the instance is fenced")
	}
	fixture.WantErr(t, fixture.ErrOf(s.get(u("a"))), admin.ErrRepairing)
	raised := tso.Timestamp(0)
	r = s.repair(func(o *model.RepairOptions) {
		o.Raise = func(_ context.Context, above tso.Timestamp) error {
			raised = above
			s.Clock.Advance(10*time.Minute + time.Second)
			return nil
		}
	})
	if raised != ahead || r.Until <= ahead {
		t.Errorf("raised to %d, the tables have %d, repaired until %d", raised, ahead, r.Until)
	}
	s.wants("6", "4")

	s.now()
	fixture.Plant(t, s.ctx, s.Env, "u", "a", "data", "n", cellTime(s.to.Add(24*time.Hour)), "damaged")
	_, err = s.admin.Repair(s.ctx, model.RepairOptions{To: s.to, Raise: func(context.Context, tso.Timestamp) error {
		t.Error("raised by a day")
		return nil
	}})
	fixture.WantErr(t, err, admin.ErrOracleBehind)
}

// collected makes a transaction whose phase two is lost, and whose primary is overwritten, and
// returns what puts its secondary's row back to before the collector resolved its lock.
func (s *torn) collected(collect func()) (primary, secondary percolator.Cell) {
	s.Helper()
	primary, secondary = u("a"), u("b")
	s.pay(s.Client, "6", "4")
	tx := fixture.MustBegin(s, s.ctx, s.dead())
	fixture.Must(s, tx.Set(primary, []byte("1")))
	fixture.Must(s, tx.Set(secondary, []byte("9")))
	fixture.MustCommit(s, s.ctx, tx)
	fixture.Must(s, fixture.Update(s.ctx, s.Client, func(tx *percolator.Txn) error { return tx.Set(primary, []byte("2")) }))
	putBack := s.save("u", "b")
	collect()
	putBack()
	return primary, secondary
}

// A hold at the snapshot lets the collector remove the record of a transaction between the cut of
// its secondary and that of its primary. The repair cannot know, and says so.
func TestRepairAfterCollectionBetweenTheCuts(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairAfterCollectionBetweenTheCuts)
}

func testRepairAfterCollectionBetweenTheCuts(t *testing.T) {
	s := newTorn(t, fixture.ShortRetention)
	_, secondary := s.collected(func() {
		s.Clock.Advance(2 * time.Minute)
		var err error
		s.to, err = s.Oracle.Next(s.ctx)
		fixture.Must(t, err)
		_, err = s.admin.TakeHold(s.ctx, s.to, time.Hour, "as a backup takes it")
		fixture.Must(t, err)
		s.Clock.Advance(2 * time.Minute)
		fixture.Collect(t, s.ctx, s.Client)
	})
	if r := s.repair(); r.Found != 1 || r.Findings[0].Cell != secondary || r.Findings[0].Commit != 0 {
		t.Errorf("%+v", r)
	}
}

// A hold for backups lets no collector by: what it has announced is finished before, and nothing is
// announced after.
func TestBackupHoldStopsCollection(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBackupHoldStopsCollection)
}

func testBackupHoldStopsCollection(t *testing.T) {
	s := newTorn(t, fixture.ShortRetention)
	g, err := s.admin.NewCollector(admin.CollectorConfig{Lease: time.Second})
	fixture.Must(t, err)
	waits := 0
	s.collected(func() {
		s.Clock.Advance(2 * time.Minute)
		broken, interrupt := context.WithCancel(s.ctx)
		_, err := mustCollector(t, s, func(col admin.Collection) {
			if col.Phase == model.CollectionResolve {
				interrupt() // a safepoint is announced, the watermark is not published
			}
		}).Collect(broken)
		fixture.WantErr(t, err, context.Canceled)
		s.Clock.Advance(2 * time.Second)
		s.hold, s.to, err = s.admin.TakeBackupHold(s.ctx, time.Hour, "backups", func(time.Duration) { waits++ })
		fixture.Must(t, err)
		b, err := s.admin.CollectionBounds(s.ctx)
		fixture.Must(t, err)
		if b.Watermark != b.Safepoint || b.Safepoint == 0 || s.hold.Timestamp != b.Safepoint+1 || waits != 1 {
			t.Errorf("hold %+v, %+v, %d waits", s.hold, b, waits)
		}
		s.Clock.Advance(10 * time.Minute)
		fixture.Must(t, fixture.ErrOf(g.Collect(s.ctx)))
		after, err := s.admin.CollectionBounds(s.ctx)
		fixture.Must(t, err)
		if after.Watermark != b.Watermark || after.Safepoint != b.Safepoint {
			t.Errorf("collected up to %+v beside the hold", after)
		}
	})
}

func mustCollector(t *testing.T, s *torn, progress func(admin.Collection)) *admin.Collector {
	t.Helper()
	g, err := s.admin.NewCollector(admin.CollectorConfig{Lease: time.Second, Progress: progress})
	fixture.Must(t, err)
	return g
}

// A row with more changes than one mutation may have is repaired in several.
func TestRepairOfAWideRow(t *testing.T) {
	fixture.Long(t)
	fixture.Costly(t)
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfAWideRow)
}

func testRepairOfAWideRow(t *testing.T) {
	s := newTornWith(t, percolator.Timing{RequestLifetime: 20 * time.Second, MetaMaxAge: 20 * time.Second})
	fixture.Put(t, s.ctx, s.Client, "wide", "kept", "kept")
	s.now()
	const columns = 10_100
	tx := fixture.MustBegin(t, s.ctx, s.Client)
	for i := range columns {
		fixture.Must(t, tx.Set(fixture.Cell("wide", fixture.Key(i)), []byte("x")))
	}
	fixture.MustCommit(t, s.ctx, tx)
	fixture.Must(t, s.Client.Flush(s.ctx))
	largest := 0
	s.FaultsOf(s.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Table == "t" {
			largest++
		}
		return percolatortest.Pass
	})
	if r := s.repair(); r.Records != columns || r.Data != columns || largest != 2 {
		t.Errorf("%+v in %d requests", r, largest)
	}
	row, err := s.Client.Engine().Store.ReadRow(s.ctx, "t", "wide", store.History())
	fixture.Must(t, err)
	if len(row.Items) != 2 {
		t.Errorf("%d cells are left", len(row.Items))
	}
}

// A worker that lives through a repair remembers runs that are gone.
func TestRepairBesideAWorker(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairBesideAWorker)
}

func testRepairBesideAWorker(t *testing.T) {
	s := newTorn(t)
	ran := make(chan string, 100)
	registry := observers.NewRegistry()
	registry.Observe("o", "t", "seen", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		ran <- string(ch.Value)
		return nil
	})
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	s.now()
	w, stop := s.work(s.Client, registry, observers.Config{Columns: seenOnly})
	fixture.Must(t, w.WaitIdle(s.ctx))
	if r := s.repair(); r.Renotified != 1 || len(ran) != 1 {
		t.Errorf("%+v after %d runs", r, len(ran))
	}
	fixture.Must(t, w.WaitIdle(s.ctx))
	stop()
	if len(ran) != 2 {
		t.Errorf("%d runs, want one before the repair and one after", len(ran))
	}
	s.audit()
}

// So does one that parks an observer, and writes that another one is done.
func TestRepairBesideAWorkerThatParks(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairBesideAWorkerThatParks)
}

func testRepairBesideAWorkerThatParks(t *testing.T) {
	s := newTorn(t)
	ran, tried, repaired := make(chan string, 100), make(chan bool), make(chan bool)
	registry := observers.NewRegistry()
	registry.Observe("o", "t", "seen", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		ran <- string(ch.Value)
		return nil
	})
	registry.Observe("p", "t", "seen", func(context.Context, *percolator.Txn, observers.Change) error {
		close(tried)
		<-repaired
		return errors.New("always")
	})
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	s.now()
	w, stop := s.work(s.Client, registry, observers.Config{MaxAttempts: 1, Columns: seenOnly})
	<-tried
	s.repair()
	close(repaired)
	fixture.Must(t, w.WaitIdle(s.ctx))
	stop()
	if len(ran) != 2 {
		t.Errorf("%d runs, want one before the repair and one after", len(ran))
	}
	s.audit()
}

// A run from before a repair is no attempt: what it was for is gone, or pending again.
func TestRepairParksNothing(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairParksNothing)
}

func testRepairParksNothing(t *testing.T) {
	s := newTorn(t)
	tried, repaired := make(chan string, 100), make(chan bool)
	registry := observers.NewRegistry()
	registry.Observe("o", "t", "seen", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		tried <- string(ch.Value)
		<-repaired
		return nil
	})
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	s.now()
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "b")
	w, stop := s.work(s.Client, registry, observers.Config{MaxAttempts: 1, Columns: seenOnly})
	if got := <-tried; got != "b" {
		t.Errorf("an observer runs for %q", got)
	}
	s.repair()
	close(repaired)
	fixture.Must(t, w.WaitIdle(s.ctx))
	stop()
	if len(tried) != 1 || <-tried != "a" || w.Stats().Parked != 0 {
		t.Errorf("%+v, and %d more runs", w.Stats(), len(tried))
	}
	s.audit()
}

// A notification is not erased, and no observer done, by what was known before the repair.
func TestRepairBeforeALateErasure(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairBeforeALateErasure)
}

func testRepairBeforeALateErasure(t *testing.T) {
	s := newTorn(t)
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	s.now()
	run, err := s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	s.repair()
	fixture.WantErr(t, s.admin.ClearNotification(s.ctx, fixture.Cell("1", "seen"), run), percolator.ErrConflict)
	done := model.ObserverState{Cell: fixture.Cell("1", "seen"), Observer: "o", Through: run, Done: true}
	broken, interrupt := context.WithCancel(s.ctx)
	now, err := s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	_, err = s.admin.Repair(broken, model.RepairOptions{To: now, Waiting: func(time.Duration) { interrupt() }})
	fixture.WantErr(t, err, context.Canceled)
	fixture.WantErr(t, s.Client.Engine().Commits.SetObserverStates(s.ctx, done), admin.ErrRepairing)
	fixture.Must(t, s.Client.Flush(s.ctx))
	if n := fixture.CellsOf(t, s.ctx, s.Env, "t", "notify"); n != 1 {
		t.Errorf("%d notifications", n)
	}
}

// An interrupted repair has erased the newest cell. The oracle has to be above it nevertheless.
func TestRepairRemembersTheGreatestTimestamp(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairRemembersTheGreatestTimestamp)
}

func testRepairRemembersTheGreatestTimestamp(t *testing.T) {
	s := newTorn(t)
	s.pay(s.Client, "6", "4")
	s.now()
	ahead := s.to.Add(10 * time.Minute)
	l := layout.LockRecord{StartTS: ahead, Kind: layout.KindPut, Primary: u("c"), Placed: ahead, TTL: time.Second}
	fixture.Plant(t, s.ctx, s.Env, "u", "c", "lock", "n", cellTime(ahead), string(l.Encode()))
	dying, resolved := s.NewClient(), false
	s.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
		if resolved {
			return percolatortest.Crash
		}
		resolved = r.Method == percolatortest.MutateRows && r.Table == "u"
		return percolatortest.Pass
	})
	if _, err := admin.New(dying).Repair(s.ctx, model.RepairOptions{To: s.to}); err == nil || !resolved {
		t.Fatalf("the first repair: %v", err)
	}
	if n := fixture.CellsOf(t, s.ctx, s.Env, "u", "lock"); n != 0 {
		t.Fatalf("%d locks", n)
	}
	r, err := s.admin.Repair(s.ctx, model.RepairOptions{To: s.to})
	fixture.WantErr(t, err, admin.ErrOracleBehind)
	if r.Greatest < ahead {
		t.Errorf("greatest %d, the tables had %d", r.Greatest, ahead)
	}
}

// What a hold kept from collection counts from when the copies may begin.
func TestBackupHoldOutlastsItsWaits(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBackupHoldOutlastsItsWaits)
}

func testBackupHoldOutlastsItsWaits(t *testing.T) {
	s := newTorn(t)
	h, to, err := s.admin.TakeBackupHold(s.ctx, time.Minute, "", func(left time.Duration) {
		time.AfterFunc(left*3/4, func() { s.Clock.Advance(2 * time.Minute) }) // in the wait after the timestamp
	})
	fixture.Must(t, err)
	holds, err := s.admin.Holds(s.ctx)
	fixture.Must(t, err)
	if len(holds) != 1 || holds[0] != h || h.Expires <= to.Add(2*time.Minute) {
		t.Errorf("%+v, stored %+v, the timestamp is %d", h, holds, to)
	}
}

// percolator_meta may be older than other rows: the safepoint in it says nothing about what
// collection has removed, a hold does.
func TestRepairOfAnOldMetaRow(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfAnOldMetaRow)
}

func testRepairOfAnOldMetaRow(t *testing.T) {
	s := newTorn(t, fixture.ShortRetention)
	early := s.pay(s.Client, "6", "4")
	s.pay(s.Client, "1", "9")
	s.Clock.Advance(2 * time.Minute)
	s.pay(s.Client, "2", "8")
	var err error
	s.to, err = s.Oracle.Next(s.ctx)
	fixture.Must(t, err)
	h, err := s.admin.TakeHold(s.ctx, s.to, time.Hour, "as an export takes it")
	fixture.Must(t, err)
	putBack := s.save("percolator_meta", "meta")
	s.Clock.Advance(2 * time.Minute)
	fixture.Must(t, fixture.ErrOf(mustCollector(t, s, nil).Collect(s.ctx)))
	putBack()
	if r := s.repair(); r.Floor != h.Timestamp-1 {
		t.Errorf("%+v", r)
	}
	patient := s.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Retention = time.Hour }))
	_, err = patient.Snapshot(s.ctx, percolator.AsOfTimestamp(early))
	fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
	at, err := s.Client.Snapshot(s.ctx, percolator.AsOfTimestamp(s.to))
	fixture.Must(t, err)
	fixture.WantValue(t, s.ctx, at, u("a"), "2")
}

// That an observer was forgotten says nothing about what changed since.
func TestRepairNotifiesAnObserverThatWasForgotten(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairNotifiesAnObserverThatWasForgotten)
}

func testRepairNotifiesAnObserverThatWasForgotten(t *testing.T) {
	s := newTorn(t)
	ack := layout.AckColumn("seen", "o")
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "a")
	forget, err := s.Client.Engine().Commits.Begin(s.ctx, commit.TxnOptions{})
	fixture.Must(t, err)
	fixture.Must(t, forget.Put(&commit.Write{Cell: fixture.Cell("1", ack), Kind: layout.KindDelete}))
	_, err = forget.Commit(s.ctx)
	fixture.Must(t, err)
	fixture.Put(t, s.ctx, s.Client, "1", "seen", "b")
	s.now()
	run, err := s.Client.Engine().Commits.Begin(s.ctx, commit.TxnOptions{})
	fixture.Must(t, err)
	if _, err := run.Acknowledge(s.ctx, fixture.Cell("1", "seen"), "o", []string{"o"}); err != nil {
		t.Fatal(err)
	}
	fixture.Must(t, fixture.ErrOf(run.Commit(s.ctx)))
	if r := s.repair(); r.Renotified != 1 {
		t.Errorf("%+v", r)
	}
	s.audit()
}
