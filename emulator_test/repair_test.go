package emulator_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// repairedSoak is a soak whose states were recorded from when a timestamp was complete.
type repairedSoak struct {
	*soaking
	recorder  *cutRecorder
	final     *percolator.Client
	calmClock atomic.Bool // the oracle's clock does not jump
	schema    *percolator.Schema
	tables    []string // of Bigtable, percolator_meta aside

	hold model.Hold
	to   tso.Timestamp
	at   []tso.Timestamp // at or below to
	want []seenAt        // what the snapshots at these show

	mu  sync.Mutex
	sum model.RepairReport // of all cuts
}

// tell adds up what repairs did.
func (s *repairedSoak) tell(r model.RepairReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.RolledForward += r.RolledForward
	s.sum.RolledBack += r.RolledBack
	s.sum.Records += r.Records
	s.sum.Markers += r.Markers
	s.sum.Data += r.Data
	s.sum.Notifications += r.Notifications
	s.sum.Renotified += r.Renotified
	s.sum.WeakRenotified += r.WeakRenotified
	s.sum.States += r.States
}

// soakForCuts lets clients, workers, resolvers and collectors work with faults, takes a hold for
// backups in the middle, and records from then on.
func soakForCuts(t *testing.T, seed uint64) *repairedSoak {
	t.Helper()
	cfg := defaultSoak(time.Second)
	cfg.Seed, cfg.Clients, cfg.Sessions, cfg.Progress, cfg.Crashes = seed, 2, 2, 0, 0.02
	recorder, recorded := newRecorder()
	s := &repairedSoak{recorder: recorder, soaking: &soaking{T: t, cfg: cfg, faults: &faultCounts{}, tally: &tally{}, work: workload.New(history.New()), rand: rand.New(rand.NewPCG(seed, 1))}}
	s.sessions = newSoakSessions(s.random(), s.faults)
	s.schema = workload.Schema(cfg.Timing)
	s.env = percolatortest.New(t, s.schema, s.configure(), recorded)
	recorder.instance, recorder.store = s.env.Instance, s.env.Store()
	if err := s.work.Setup(t.Context(), s.env.Client); err != nil {
		t.Fatal(err)
	}
	s.tables = []string{"people.mail", "people" + ".city"}
	for _, table := range s.schema.Tables {
		s.tables = append(s.tables, table.Name)
	}
	s.started = time.Now()
	for i := range cfg.Clients {
		s.occupy(fmt.Sprintf("client-%d", i+1), s.transactSlowly)
	}
	s.occupy("worker-1", s.observe)
	s.occupy("resolver", s.resolve)
	s.occupy("collector", s.collectUntilHeld)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var others sync.WaitGroup
	others.Go(func() { s.pauseClients(ctx) })
	holder := s.env.NewClient(percolatortest.Name("holder"), s.configure())
	held := make(chan error, 1)
	others.Go(func() {
		pause(ctx, time.Second)
		var err error
		s.calmClock.Store(true)
		s.hold, s.to, err = admin.New(holder).TakeBackupHold(ctx, 48*time.Hour, "cuts", nil)
		if err == nil {
			err = s.record(ctx)
		}
		held <- err
	})
	working, end := context.WithCancel(ctx)
	others.Go(func() {
		defer end()
		if err := <-held; err != nil {
			s.problem("%v", err)
			return
		}
		watch, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		others.Go(func() {
			pause(watch, 300*time.Millisecond) // what clients have left behind is still there
			s.calmClock.Store(false)
			s.moveClock(watch)
		})
		s.recorder.watch(watch, append(s.tables, "percolator_meta"))
	})
	s.supervise(working)
	stop()
	others.Wait()
	s.calm()
	s.recorder.mu.Lock()
	s.recorder.on = false
	s.recorder.mu.Unlock()
	s.final = s.env.NewClient(percolatortest.Name("final"), s.configure())
	s.env.Clock.Advance(10 * cfg.LockTTL)
	s.readOriginal()
	return s
}

// transactSlowly makes so few transactions that a cut is soon copied.
func (s *repairedSoak) transactSlowly(ctx context.Context, sl *slot, c *percolator.Client, r *rand.Rand) {
	var sessions sync.WaitGroup
	faults := s.env.FaultsOf(c)
	for range s.cfg.Sessions {
		r := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		w := s.work.NewSession(c, sl.name, faults.Crashed, r)
		sessions.Go(func() {
			for ctx.Err() == nil && !faults.Crashed() {
				tctx, cancel := context.WithTimeout(ctx, transactionLimit)
				w.Step(tctx)
				cancel()
				pause(ctx, time.Duration(r.Int64N(int64(100*time.Millisecond))))
			}
		})
	}
	sessions.Wait()
}

// collectUntilHeld is collect, whose jumps of the clock would leave no lock alive.
func (s *repairedSoak) collectUntilHeld(ctx context.Context, _ *slot, c *percolator.Client, r *rand.Rand) {
	g, err := admin.New(c).NewCollector(collectorConfig())
	if err != nil {
		s.problem("%v", err)
		return
	}
	for ctx.Err() == nil {
		if !s.calmClock.Load() {
			s.env.Clock.Advance(70 * time.Second)
		}
		col, err := g.Collect(ctx)
		s.tally.collected(col, err)
		pause(ctx, time.Duration(r.Int64N(int64(300*time.Millisecond))))
	}
}

// record begins to record the states of all rows.
func (s *repairedSoak) record(ctx context.Context) error {
	if err := s.recorder.readAll(ctx, append(s.tables, "percolator_meta")); err != nil {
		return err
	}
	s.recorder.mu.Lock()
	s.recorder.on = true
	s.recorder.mu.Unlock()
	return nil
}

// readOriginal reads snapshots at and below the timestamp of the repair.
func (s *repairedSoak) readOriginal() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	s.at = []tso.Timestamp{s.to}
	for _, ts := range s.work.Past() {
		if ts >= s.hold.Timestamp && ts <= s.to && s.random().IntN(10) == 0 && len(s.at) < 2 {
			s.at = append(s.at, ts-tso.Timestamp(s.random().IntN(2)))
		}
	}
	for _, ts := range s.at {
		seen, err := readAt(ctx, s.final, ts)
		if err != nil {
			s.Fatalf("reading at %d: %v", ts, err)
		}
		s.want = append(s.want, seen)
	}
}

// cutStores is the emulator of the cuts.
func cutStores(t *testing.T) []option.ClientOption {
	t.Helper()
	em, err := emulator.Start(emulator.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = em.Close() })
	return append(em.ClientOptions(), em.InProcess()...)
}

// open is a client of an instance with a cut, of the oracle of the soak.
func (s *repairedSoak) open(ctx context.Context, t testing.TB, instance string, opts []option.ClientOption) *percolator.Client {
	t.Helper()
	c, err := percolator.NewClient(ctx, percolator.Config{Project: cutProject, Instance: instance, Oracle: s.env.Oracle, Retention: time.Minute, LockTTL: s.cfg.LockTTL}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var repairedCuts = flag.Int("cuts", fixture.Of(16, 3), "how many cuts TestRepair repairs; of more than 70 a multiple of that")

const cutsOfASoak = 70

// TestRepair: after the repair of a cut, every snapshot at or below its timestamp is as it was.
func TestRepair(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	soaks, cuts := (*repairedCuts+cutsOfASoak-1)/cutsOfASoak, min(*repairedCuts, cutsOfASoak)
	var repaired, damaged atomic.Int64
	t.Run("soaks", func(t *testing.T) {
		for i := range soaks {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				seed := rand.Uint64()
				if *soakSeed != 0 {
					seed = *soakSeed + uint64(i)
				}
				t.Logf("seed %d", seed)
				percolatortest.Bubble(t, func(t *testing.T) { repairCuts(t, seed, i, cuts, &repaired, &damaged) })
			})
		}
	})
	t.Logf("%d cuts were repaired and judged; %d of them showed the damage before", repaired.Load(), damaged.Load())
	if repaired.Load() != int64(soaks*cuts) || damaged.Load() == 0 && soaks > 1 { // few are looked at before
		t.Errorf("%d cuts of %d were repaired, %d were damaged before", repaired.Load(), soaks*cuts, damaged.Load())
	}
}

// repairCuts repairs cuts of one soak.
func repairCuts(t *testing.T, seed uint64, soak, cuts int, repaired, damaged *atomic.Int64) {
	started, opts := time.Now(), cutStores(t)
	s := soakForCuts(t, seed)
	t.Logf("recorded after %v, %d rows, %d transactions", time.Since(started).Round(time.Second), len(s.recorder.states), s.work.History.Len())
	var at sync.WaitGroup
	turns := make(chan struct{}, 4)
	for n := range cuts {
		r := s.random()
		at.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if s.repairCut(t, fmt.Sprintf("cut-%d-%d", soak, n), n, r, opts, damaged) {
				repaired.Add(1)
			}
		})
	}
	at.Wait()
	t.Logf("%v: %d cuts, in all %d locks rolled forward, %d back, removed %d records, %d markers, %d values, %d notifications; notified again %d, weak %d",
		time.Since(started).Round(time.Second), cuts, s.sum.RolledForward, s.sum.RolledBack, s.sum.Records, s.sum.Markers, s.sum.Data, s.sum.Notifications, s.sum.Renotified, s.sum.WeakRenotified)
	s.judge()
	t.Logf("judged after %v", time.Since(started).Round(time.Second))
}

// judge checks the history of the soak, with what was read in the cuts.
func (s *repairedSoak) judge() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	s.quiesce(ctx, s.final)
	if r := s.audit(ctx, s.final, false); r.Found > 0 {
		s.Errorf("the original: %s", r)
	}
	if err := s.work.Final(ctx, s.final, true); err != nil {
		s.Error(err)
	}
	if checked := history.Check(s.work.History, workload.Rules()); len(checked.Anomalies) > 0 {
		s.Errorf("%d anomalies, first: %v", len(checked.Anomalies), checked.Anomalies[0])
	}
	for _, p := range s.problems {
		s.Error(p)
	}
}

// repairCut makes a cut, repairs it, and looks at it.
func (s *repairedSoak) repairCut(t *testing.T, instance string, n int, r *rand.Rand, opts []option.ClientOption, damaged *atomic.Int64) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cut := s.recorder.pickCut(r)
	if n%10 == 0 && s.half(ctx, t, instance+"-as-it-is", cut, opts) {
		damaged.Add(1)
	}
	unheld := n%11 == 5
	switch {
	case unheld:
		s.unhold(cut)
	case n%8 != 0:
		s.fence(cut)
	}
	writeCut(ctx, t, instance, s.schema, cut, opts)
	c := s.open(ctx, t, instance, opts)
	defer c.Close()
	report, err := admin.New(c).Repair(ctx, model.RepairOptions{To: s.to, WithoutHold: unheld})
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // a request has a second, which a slow machine may take
		report, err = admin.New(c).Repair(ctx, model.RepairOptions{To: s.to, WithoutHold: unheld})
	}
	if err != nil || report.Found > 0 || report.Audited > 0 {
		t.Errorf("%s: %v, %+v", instance, err, report)
		return false
	}
	s.tell(report)
	ok := true
	at := s.at
	if unheld {
		at = []tso.Timestamp{0} // now: nothing keeps what is older than the retention
	}
	for i, ts := range at {
		seen, err := readAt(ctx, c, ts)
		if diff := difference(seen, s.want[i]); err != nil || diff != "" {
			t.Errorf("%s: the snapshot at %d: %v, %s", instance, ts, err, diff)
			ok = false
		}
	}
	if n%3 > 0 || unheld {
		return ok
	}
	s.work.NewSession(c, instance, func() bool { return false }, r).View(ctx, "cut", func(ctx context.Context, r workload.Reader) error {
		return r.Everything(ctx, false)
	}, percolator.AsOfTimestamp(s.to))
	audited, err := percolatortest.Audit(ctx, rawStore(ctx, t, cutProject, instance, opts), model.AuditConfig{
		Schema: s.schema, Observers: workload.Observed(),
	})
	if err != nil || audited.Found > 0 {
		t.Errorf("%s: %v, %s", instance, err, audited)
		ok = false
	}
	if n%9 == 0 {
		ok = s.observersCatchUp(ctx, t, instance, c) && ok
	}
	return ok
}

// fence puts a fence into a cut that is in force, as after the drain.
func (s *repairedSoak) fence(cut map[cutRow][]cutItem) {
	k := cutRow{"percolator_meta", "meta"}
	f := meta.Fence{Repair: &meta.Repair{To: s.to, Phase: model.RepairResolve, Floor: s.hold.Timestamp - 1}}
	cut[k] = append(slices.Clone(cut[k]), cutItem{"meta", meta.ColumnFence, 1000, string(f.Encode())})
}

// unhold takes the hold from a cut, as in backups that Bigtable takes by itself.
func (s *repairedSoak) unhold(cut map[cutRow][]cutItem) {
	k := cutRow{"percolator_meta", "meta"}
	cut[k] = slices.DeleteFunc(slices.Clone(cut[k]), func(it cutItem) bool { return strings.HasPrefix(it.column, "hold:") })
}

// half reports that in a cut that nobody has repaired some transaction is there in half: accounts
// with another sum, or an index that differs.
func (s *repairedSoak) half(ctx context.Context, t *testing.T, instance string, cut map[cutRow][]cutItem, opts []option.ClientOption) bool {
	writeCut(ctx, t, instance, s.schema, cut, opts)
	c := s.open(ctx, t, instance, opts)
	defer c.Close()
	sum, differ := int64(0), false
	err := c.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		for e, err := range snap.Scan(ctx, "bank", percolator.All()) {
			if err != nil {
				return err
			}
			sum += workload.Amount(e.Value)
		}
		return nil
	})
	for _, index := range []string{"mail", "city"} {
		v, verr := admin.New(c).VerifyIndex(ctx, "people", index, admin.VerifyIndexOptions{})
		differ, err = differ || verr == nil && v.Missing+v.Stray+v.Stale > 0, errors.Join(err, verr)
	}
	if err != nil {
		t.Errorf("%s: %v", instance, err)
	}
	return sum != workload.BankTotal || differ
}

// observersCatchUp lets a worker do what is pending, and looks at the copies.
func (s *repairedSoak) observersCatchUp(ctx context.Context, t *testing.T, instance string, c *percolator.Client) bool {
	w, err := observers.NewWorker(c, workload.New(history.New()).Observers("w", c), observers.Config{DisableCollection: true})
	if err != nil {
		t.Error(err)
		return false
	}
	wctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(wctx) }()
	err = w.WaitIdle(ctx)
	stop()
	<-done
	stale := ""
	verr := c.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		for e, err := range snap.Scan(ctx, "lists", percolator.All()) {
			if err != nil {
				return err
			}
			if v, err := snap.Get(ctx, percolator.Cell{Table: "copies", Row: e.Cell.Row, Column: "copy"}); err != nil || string(v) != string(e.Value) {
				stale = fmt.Sprintf("%s: %q, copied as %q, %v", e.Cell, e.Value, v, err)
			}
		}
		return nil
	})
	if err != nil || verr != nil || stale != "" {
		t.Errorf("%s: observers: %v, %v, %s", instance, err, verr, stale)
	}
	return err == nil && verr == nil && stale == ""
}
