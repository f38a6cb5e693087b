package emulator_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

var (
	guaranteeChanges = flag.Int64("changes", fixture.Of[int64](1000, enoughChanges), "how many changes from outside TestGuarantees makes")
	guaranteeLimit   = flag.Duration("changes.limit", 0, "how long TestGuarantees may take, a third of which is for the rest in the end; 0: enough for the changes")
	guaranteeSeed    = flag.Uint64("changes.seed", 0, "seed of TestGuarantees' changes and of the faults of its workers; 0: another one each time")
)

const guaranteeLockTTL = 2 * time.Second

// enoughChanges are so many that each check has occasions.
const enoughChanges = 500

// TestGuarantees checks what is promised of notifications (section 2.4 of the paper;
// docs/internals/PROTOCOL.md, I10 to I13) while workers are killed at chosen requests, stopped and
// added at random, and while writers die between their commit point and the cell that they changed.
// Nobody reads but the workers. Then the tables tell what has happened: their raw records, and a
// record that each run wrote in its own transaction.
//
// It always uses the emulator in this process, whose rows do not flicker (see the documentation of
// this package).
//
//	go test ./emulator_test -run 'TestGuarantees$' -v -timeout 30m -changes 10000
func TestGuarantees(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	cfg := defaultGuarantees(*guaranteeChanges)
	if *guaranteeSeed != 0 {
		cfg.seed = *guaranteeSeed
	}
	if *guaranteeLimit != 0 {
		cfg.limit, cfg.rest = *guaranteeLimit, *guaranteeLimit/3
	}
	r := runGuarantees(t, cfg)
	fmt.Print(r)
	for _, p := range r.problems {
		t.Error(p)
	}
	enough := cfg.changes >= enoughChanges
	if total := r.workers.total; enough && total.Cells == total.Runs {
		t.Error("no run was for several cells")
	}
	rested := true
	for _, c := range r.checks {
		if enough && c.occasions == 0 {
			t.Errorf("%s: there was no occasion to break it", c.name)
		}
		if c.name == restCheck {
			rested = t.Run(c.name, c.report)
		}
	}
	t.Run("promises", func(t *testing.T) {
		for _, c := range r.checks { // what is not done yet proves nothing, but two runs for one change do
			if c.name == onceCheck || rested && c.name != restCheck {
				t.Run(c.name, c.report)
			}
		}
	})
}

// guaranteeConfig says how much happens.
type guaranteeConfig struct {
	changes int64
	seed    uint64
	writers int
	every   int64         // changes and calls of observers between two events, on average
	limit   time.Duration // for the whole
	rest    time.Duration // in which the workers come to rest once nobody disturbs them
}

func defaultGuarantees(changes int64) guaranteeConfig {
	return guaranteeConfig{
		changes: changes, seed: rand.Uint64(), writers: 4, every: 40,
		limit: 15*time.Minute + time.Duration(changes)*100*time.Millisecond, rest: time.Minute,
	}
}

// guarantees is a run of the workload.
type guarantees struct {
	*testing.T
	cfg      guaranteeConfig
	env      *percolatortest.Env
	writes   *guaranteeWrites
	workers  *population
	released atomic.Bool
	calls    atomic.Int64
	asks     chan func() // to be carried out on the test's goroutine

	mu       sync.Mutex
	problems []string
}

func (g *guarantees) problem(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problems = append(g.problems, fmt.Sprintf(format, args...))
}

func (g *guarantees) configure() percolatortest.ClientOption {
	return percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = guaranteeLockTTL })
}

// runGuarantees carries the workload out, and leaves the judgement to the caller.
func runGuarantees(t *testing.T, cfg guaranteeConfig) *guaranteeReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cfg.limit)
	defer cancel()
	g := &guarantees{T: t, cfg: cfg, asks: make(chan func())}
	g.env = percolatortest.New(t, guaranteeSchema(), g.configure())
	g.writes = &guaranteeWrites{want: cfg.changes, poked: map[percolator.Cell]tso.Timestamp{}}
	g.workers = &population{g: g, rand: rand.New(rand.NewPCG(cfg.seed, 1)), Deaths: map[string]int{}}
	report := &guaranteeReport{cfg: cfg, writes: g.writes, workers: g.workers}
	started := time.Now()
	if err := g.writes.burst(ctx, g.env.Client, max(1, int(cfg.changes/1000))); err != nil {
		t.Fatal(err)
	}
	g.disturb(ctx)
	report.disturbed = time.Since(started)

	// Half of the debris is there still: whoever lived is killed, and two new workers find it by
	// themselves.
	g.workers.killAll()
	g.env.Clock.Advance(guaranteeLockTTL * 6 / 5)
	g.workers.add()
	g.workers.add()
	rest, stop := context.WithTimeout(ctx, max(cfg.rest, report.disturbed)) // the slower the machine, the longer it takes
	defer stop()
	independent := g.checkIndependent(rest)
	g.released.Store(true)
	err := awaitQuiet(rest, g.env.Store(), func() (int64, bool) { return work(g.workers.workers) })
	report.took = time.Since(started)
	g.workers.stopAll()

	check, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	h, herr := readGuarantees(check, g.env.Client, g.env.Store())
	if herr != nil {
		t.Fatal(herr)
	}
	report.history = h
	report.checks = append(h.check(g.writes), independent, g.checkRest(err))
	report.problems = g.problems
	return report
}

// disturb runs the writers, and has workers come and go, until everything is written and most of it
// is done.
func (g *guarantees) disturb(ctx context.Context) {
	g.workers.add()
	var writers sync.WaitGroup
	for i := range g.cfg.writers {
		r := rand.New(rand.NewPCG(g.cfg.seed, uint64(i+2)))
		writers.Go(func() { g.writes.write(ctx, fmt.Sprintf("writer-%d", i+1), r, g.newWriter(ctx)) })
	}
	written, done := make(chan struct{}), make(chan struct{})
	go func() { writers.Wait(); close(written) }()
	go func() { defer close(done); <-written; g.mostDone(ctx) }()
	g.supervise(ctx, done)
	<-written
}

// mostDone waits until little is dirty but the stuck rows.
func (g *guarantees) mostDone(ctx context.Context) {
	for ctx.Err() == nil {
		cells, err := dirtyCells(ctx, g.env.Store())
		if err == nil && len(slices.DeleteFunc(cells, func(c string) bool { return strings.Contains(c, "/"+stuckPrefix) })) < 20 {
			return
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// newWriter has clients for writers made on the test's goroutine.
func (g *guarantees) newWriter(ctx context.Context) func(string, func(percolatortest.Request) percolatortest.Action) *writerClient {
	return func(name string, handler func(percolatortest.Request) percolatortest.Action) *writerClient {
		made := make(chan *writerClient, 1)
		ask := func() {
			c := g.env.NewClient(percolatortest.Name(name), g.configure(), percolatortest.Handler(handler))
			f := g.env.FaultsOf(c)
			made <- &writerClient{c, f, func() { g.workers.leaving.Go(func() { _ = c.Close(); f.Forget() }) }}
		}
		select {
		case g.asks <- ask:
			return <-made
		case <-ctx.Done():
			return nil
		}
	}
}

// stalledFor is how long nothing has to happen until the oracle's clock jumps.
const stalledFor = 50 * time.Millisecond

// supervise makes events as the work goes on, until done is closed. It runs on the test's
// goroutine, as making clients may end the test.
func (g *guarantees) supervise(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	progress := func() int64 { return g.writes.committed.Load() + g.calls.Load() }
	next := progress() + 10
	last, since := progress(), time.Now()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			g.problem("not done within %v", g.cfg.limit)
			return
		case ask := <-g.asks:
			ask()
		case <-tick.C:
			g.workers.bury(false)
			g.workers.forget()
			if n := progress(); n != last {
				last, since = n, time.Now()
			} else if time.Since(since) > stalledFor { // what is left waits for locks of the dead
				since = time.Now()
				g.env.Clock.Advance(guaranteeLockTTL * 6 / 5)
			}
		}
		if len(g.workers.workers) == 0 {
			g.workers.add()
		}
		if n := progress(); n >= next {
			g.workers.event()
			next = n + 1 + g.workers.rand.Int64N(2*g.cfg.every)
		}
	}
}

// checkIndependent waits until observer steady has done all that there is to do for the rows for
// which flaky fails.
func (g *guarantees) checkIndependent(ctx context.Context) *guaranteeCheck {
	c := &guaranteeCheck{name: "observers of one column acknowledge independently"}
	for {
		rows, waiting, early, err := heldUpByFlaky(ctx, g.env.Store())
		switch {
		case err != nil && ctx.Err() == nil:
			g.Fatal(err)
		case len(early) > 0:
			c.fail("an observer that fails has acknowledged %q", early)
			return c
		case err == nil && len(waiting) == 0:
			c.occasions = rows
			return c
		case ctx.Err() != nil:
			c.fail("held up by another observer: %q", waiting)
			return c
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// checkRest: everything was done in the end, stranded changes included.
func (g *guarantees) checkRest(err error) *guaranteeCheck {
	c := &guaranteeCheck{name: restCheck, occasions: int(min(g.writes.stranded.Load(), g.workers.total.LocksResolved))}
	if err != nil {
		c.fail("%v", err)
	}
	return c
}

// guaranteeReport is what came out.
type guaranteeReport struct {
	cfg             guaranteeConfig
	writes          *guaranteeWrites
	workers         *population
	history         *guaranteeHistory
	checks          []*guaranteeCheck
	problems        []string
	disturbed, took time.Duration
}

// Broken is how often a property was found broken.
func (r *guaranteeReport) Broken() (n int) {
	for _, c := range r.checks {
		n += c.found
	}
	return n
}

// String is the report for people.
func (r *guaranteeReport) String() string {
	var b strings.Builder
	w, p, s := r.writes, r.workers, r.workers.total
	changes, acks, runs := r.history.total()
	fmt.Fprintf(&b, "guarantees: seed %d: %d changes from outside and %d weak notifications committed; %d changes, %d acknowledgments, %d records of runs in all\n",
		r.cfg.seed, w.committed.Load(), w.notified.Load(), changes, acks, runs)
	fmt.Fprintf(&b, "guarantees: %d workers added, %d killed %v, %d stopped; %d writers crashed, %d of them between the commit point and the cell\n",
		p.Added, p.Killed, p.Deaths, p.Stopped, w.crashed.Load(), w.stranded.Load())
	fmt.Fprintf(&b, "guarantees: %s\n", attemptsOf(s))
	fmt.Fprintf(&b, "guarantees: %v disturbed, %v until all was done\n", r.disturbed.Round(time.Millisecond), r.took.Round(time.Millisecond))
	for _, c := range r.checks {
		fmt.Fprintf(&b, "guarantees: %-55s %7d occasions, broken %d\n", c.name, c.occasions, c.found)
	}
	return b.String()
}

func attemptsOf(s observers.Stats) string {
	return fmt.Sprintf("%d attempts, %d committed for %d cells, %d conflicts, %d errors, %d panics, %d turns with nothing left to do, %d locks of the dead resolved by scans",
		s.Attempts, s.Runs, s.Cells, s.Conflicts, s.Errors, s.Panics, s.Acknowledged, s.LocksResolved)
}
