package simulation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/catalog"
)

// Report is what became of an episode.
type Report struct {
	Config
	History  *history.Report
	Kinds    map[string]workload.Count
	Faults   map[string]int
	Virtual  time.Duration // how long it took those within
	Real     time.Duration
	Problems []string // and those of the history
	Notes    []string
	Digest   uint64 // the same whenever exactly the same has happened
}

// Failed reports whether the episode shows that something is wrong.
func (r *Report) Failed() bool { return len(r.Problems) > 0 }

// String says what is wrong.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d transactions, faults %s: %d transactions judged in %v, virtual %v; %v\n", r.Seed, r.Transactions, r.Config.Faults,
		r.History.Transactions, r.Real.Round(time.Millisecond), r.Virtual.Round(time.Second), r.Faults)
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "- %s\n", p)
	}
	return b.String()
}

// Run runs one episode. An error means that it could not be carried out.
func Run(t *testing.T, cfg Config) (*Report, error) {
	detail, err := cfg.detail()
	if err != nil {
		return nil, err
	}
	r := &Report{Config: cfg, History: &history.Report{}}
	begun := time.Now()
	err = inBubble(t, fmt.Sprintf("seed %d", cfg.Seed), cfg.Seed, func() error { return live(detail, r) })
	r.Real = time.Since(begun)
	return r, err
}

// live is an episode within its bubble.
func live(cfg episode, r *Report) error {
	w, err := newWorld(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if cfg.Garbage != nil {
		go w.collectGarbage(ctx)
	}
	if err := w.setUp(ctx); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	if err := w.run(ctx); err != nil {
		return err
	}
	w.end()
	checked, err := w.rest(ctx)
	if err != nil {
		return err
	}
	for _, err := range w.oracle.close() {
		w.problem("%v", err)
	}
	if checked.Found() > 0 {
		w.problem("%s", checked)
	}
	r.History, r.Kinds, r.Virtual, r.Problems, r.Notes = checked, w.work.Counts(), time.Since(w.begun), w.problems, w.notes
	r.Faults, r.Digest = w.faults(), w.cluster.Digest()
	if w.copies.complete() {
		r.Digest += w.copies.cluster.Digest()
	}
	return nil
}

// faults is how many of each kind there were.
func (w *world) faults() map[string]int {
	out := map[string]int{}
	for f, n := range w.tally.all() {
		out[string(f)] = n
	}
	for f, n := range w.cluster.Faults() {
		if n > 0 {
			out[storeFault(simulated.Fault(f))] = int(n)
		}
	}
	return out
}

// run has all processes work until there were enough transactions.
func (w *world) run(ctx context.Context) error {
	ctx, w.stop = context.WithCancel(ctx)
	defer w.stop()
	if err := w.populate(ctx); err != nil {
		return err
	}
	w.storm(true)
	var weather sync.WaitGroup
	weather.Go(func() { w.weather(ctx, storms) })
	weather.Go(func() { w.oracleWeather(ctx) })
	w.await(ctx)
	w.storm(false)
	w.stop()
	weather.Wait()
	return nil
}

// populate starts all processes.
func (w *world) populate(ctx context.Context) error {
	type job struct {
		name string
		work func(*process)
	}
	jobs := []job{{lingerer, w.linger}, {"grower", w.grow}, {operator, w.operate}, {"visitor", w.visit}, {"backup", w.afterRebuild(w.backUp)}, {"loader", w.load},
		{"importer", w.importCargo}, {"aborter", w.abortImports}, {"dropper", w.dropAnnexes}, {"rebuilder", w.rebuildIndex},
		{"journalist", w.turnJournal}, {"deleter", w.deleteRanges}, {"consumer", w.afterRebuild(w.watch)}, {"issuer", w.reissue}, {"poster-1", w.post}, {"poster-2", w.post}, {"resolver", w.resolve},
		{"keeper-1", w.keep}, {"keeper-2", w.keep}}
	if w.cfg.repairs {
		jobs = append(jobs, job{"copier", w.afterRebuild(w.copyTables)})
	}
	for i := range w.cfg.clients {
		jobs = append(jobs, job{fmt.Sprintf("client-%d", i+1), w.transact})
	}
	for i := range w.cfg.workers {
		jobs = append(jobs, job{fmt.Sprintf("worker-%d", i+1), w.observe})
	}
	for i := range w.cfg.collectors {
		jobs = append(jobs, job{fmt.Sprintf("collector-%d", i+1), w.collect})
	}
	for _, j := range jobs {
		if err := w.occupy(ctx, j.name, j.work); err != nil {
			return err
		}
	}
	return nil
}

// longest is how long the work of an episode may take, in virtual time.
const longest = 6 * time.Hour

// end ends all work, and waits for what is under way. Half of the processes do not live to see it.
func (w *world) end() {
	begun := time.Now()
	for i, sl := range w.slots {
		if i%2 == 0 && w.cfg.intensity > 0 {
			sl.kill()
		}
	}
	var leaving sync.WaitGroup
	for _, sl := range w.slots {
		leaving.Go(sl.leave)
	}
	leaving.Wait()
	w.ending.Wait()
	if took := time.Since(begun); took > stopWithin {
		w.problem("after the last fault, processes took %v to end", took)
	}
	time.Sleep(catalog.EffectiveTiming(w.cfg.Timing).RequestLifetime) // what was late has arrived
}
