package simulation

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
)

// world is an episode under way: a store, an oracle, and processes that use them.
type world struct {
	cfg        episode
	dice       *dice
	tally      *tally
	cluster    *simulated.Cluster
	oracle     *oracle
	history    *history.Recording
	work       *workload.Workload
	schema     *percolator.Schema
	lull       lull
	growth     growth
	backups    backups
	copies     copies
	unrecorded unrecorded
	outages    outages
	conduct    conduct
	positions  positions
	shares     shares
	locksSeen  locksSeen

	deletions deletions
	watcher   *watcher

	operators operators
	journals  journals
	perished  atomic.Int32 // clients
	posted    atomic.Int32 // posters that died of it
	rebuilds  atomic.Int32 // indexes that were built anew
	rests     atomic.Int32 // lulls for that

	begun  time.Time
	calm   atomic.Bool // no more faults
	awake  bool        // machines do not sleep
	stop   context.CancelFunc
	slots  []*slot
	ending sync.WaitGroup // processes that were killed

	mu       sync.Mutex
	notes    []string
	problems []string
	repeated int // notifications that requests set again which arrived twice
}

// epoch is when a simulation begins. Bubbles begin in 2000, and timestamps in 2025.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(cfg episode) (*world, error) {
	time.Sleep(time.Until(epoch))
	w := &world{
		cfg: cfg, dice: newDice(cfg.Seed), tally: &tally{without: map[string]bool{}}, history: history.New(), watcher: newWatcher(cfg), begun: time.Now(),
		operators: make(operators, 1),
	}
	w.calm.Store(true)
	for _, f := range cfg.Without {
		w.tally.without[f] = true
	}
	w.work = workload.New(w.history)
	w.work.Receive, w.work.Perish = w.receive, w.perish
	w.work.IssuePermits(cfg.expiry.ttl, cfg.expiry.notify)
	w.work.Archive()
	w.work.OpenOutbox(w.receiverAway, w.dieOfPost)
	w.schema = w.firstSchema()
	if cfg.rebuildsFirst {
		w.work.WaitForCards()
	}
	w.conduct.timing = catalog.EffectiveTiming(cfg.Timing)
	cfg.store.Applied = func(process, table, row string, changes []store.Change) {
		w.unrecorded.note(process, table, row, changes)
		w.dieOfNotifying(process, table, changes)
		w.conduct.applied(changes)
		w.shares.applied(table, row, changes)
		for _, wrong := range w.positions.note(table, row, changes) {
			w.problem("%s", wrong)
		}
	}
	cfg.store.Sent = func(process string, bulk bool, until time.Time, table, row string, changes []store.Change) {
		for _, wrong := range w.conduct.sent(process, bulk, until, table, row, changes) {
			w.problem("%s", wrong)
		}
		if cfg.turnsJournal { // cycles empty a journal that is off
			return
		}
		for _, wrong := range w.shares.sent(process, table, row, changes) {
			w.problem("%s", wrong)
		}
	}
	if cfg.trace != nil {
		cfg.store.Trace = func(e simulated.Event) {
			if line := e.String(); cfg.trace.MatchString(line) {
				w.note("%s", line)
			}
		}
	}
	w.cluster = simulated.NewCluster(cfg.store)
	var err error
	w.oracle, err = newOracle(w.dice, w.tally, w.oracleRate)
	return w, err
}

// oracleRate is the probability of a fault for each request to the oracle, or of the oracle.
func (w *world) oracleRate() float64 {
	if w.calm.Load() {
		return 0
	}
	return min(0.005*w.cfg.intensity, 0.2)
}

// storm begins the faults, or ends them.
func (w *world) storm(on bool) {
	w.calm.Store(!on)
	w.work.SetDifficult(on)
	rates := w.cfg.rates
	if !on {
		rates = simulated.Rates{}
	}
	w.cluster.SetRates(rates)
}

// setUp creates the tables and fills them.
func (w *world) setUp(ctx context.Context) error {
	store := w.cluster.Connect("setup")
	if err := meta.ApplySchemaOn(ctx, tables{w.cluster}, store, w.schema); err != nil {
		return err
	}
	p, err := w.open(ctx, "setup")
	if err != nil {
		return err
	}
	if err := w.work.Setup(ctx, p.client); err != nil {
		return err
	}
	return p.leave()
}

// tables creates those of a cluster.
type tables struct{ *simulated.Cluster }

func (t tables) Create(_ context.Context, name string, _ []string, _ int, families ...string) error {
	return t.CreateTable(name, families)
}

func (t tables) Families(_ context.Context, name string) (map[string]bool, error) {
	return t.Cluster.Families(name), nil
}

// notesMost bounds them.
const notesMost = 10_000

// note is something to read when an episode fails.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.notes) < notesMost {
		w.notes = append(w.notes, fmt.Sprintf("%12v ", time.Since(w.begun))+fmt.Sprintf(format, args...))
	}
}

// problem is something that must not be.
func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf("after %v: ", time.Since(w.begun))+fmt.Sprintf(format, args...))
}
