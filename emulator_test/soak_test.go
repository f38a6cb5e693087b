package emulator_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var (
	soakFor  = flag.Duration("soak", fixture.Of(10*time.Second, 3*time.Second), "how long TestSoak works, of virtual time")
	soakSeed = flag.Uint64("soak.seed", 0, "seed of TestSoak's faults and transactions; 0: another one each time")
	soakJSON = flag.String("soak.json", "", "file for TestSoak's report as JSON")
)

// soakConfig says what happens in a soak, and how much of it.
type soakConfig struct {
	Duration time.Duration
	Seed     uint64

	Clients  int // with transactions
	Sessions int // of each client
	Workers  int // with observers, each on a client of its own

	LockTTL time.Duration
	Timing  percolator.Timing
	Faults  float64 // intensity; 0: none, 1: some in each hundred requests
	Crashes float64 // probability for each request that writes, times the intensity

	Idle     time.Duration // in which observers come to rest in the end
	Progress time.Duration // between two lines; 0: none
}

func defaultSoak(d time.Duration) soakConfig {
	return soakConfig{
		Duration: d, Seed: rand.Uint64(), Clients: 3, Sessions: 5, Workers: 2,
		LockTTL: 2 * time.Second, Timing: percolator.Timing{RequestLifetime: time.Second, MetaMaxAge: time.Second},
		Faults: 1, Crashes: 0.002, Idle: 20*time.Second + d/10,
	}
}

// TestSoak lets clients, observers, resolvers and collectors work against each other while requests
// are lost, repeated and delivered late, clients are paused and crash, and the oracle's clock
// jumps. Then everything comes to rest, and the history of what all clients saw is checked (package
// history), and the raw tables are (percolatortest.Audit). It always uses the emulator in this
// process, and happens in virtual time.
//
//	go test ./emulator_test -run 'TestSoak$' -v -timeout 30m -soak 10m
func TestSoak(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	cfg := defaultSoak(*soakFor)
	if *soakSeed != 0 {
		cfg.Seed = *soakSeed
	}
	cfg.Progress = 10 * time.Second
	var r *soakReport
	percolatortest.Bubble(t, func(t *testing.T) { r = soak(t, cfg) })
	fmt.Print(r)
	if *soakJSON != "" {
		if err := os.WriteFile(*soakJSON, r.json(), 0o644); err != nil {
			t.Error(err)
		}
	}
	for _, p := range r.Problems {
		t.Error(p)
	}
	t.Run("anomalies", func(t *testing.T) {
		if r.Anomalies() > 0 {
			t.Error(r.Anomalies())
		}
	})
	if r.History.Committed == 0 || r.Faults["crash"]+r.Faults["late request"] == 0 {
		t.Error("the soak did not do what it is for")
	}
}

// soaking is a soak under way.
type soaking struct {
	*testing.T
	cfg      soakConfig
	env      *percolatortest.Env
	work     *workload.Workload
	faults   *faultCounts
	tally    *tally
	sessions *soakSessions
	started  time.Time

	held    sync.WaitGroup // requests that injectors hold
	closing sync.WaitGroup // clients that have crashed
	jumps   sync.WaitGroup

	slots []*slot // only on the test's goroutine

	mu       sync.Mutex
	rand     *rand.Rand
	problems []string
	locks    []model.Lock // that resolvers remember
}

// problem notes that the soak did not go as it should, which is no anomaly by itself.
func (s *soaking) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// soak runs one and tells what it found. It ends the test if it cannot be carried out, and leaves
// the judgement to the caller.
func soak(t *testing.T, cfg soakConfig) *soakReport {
	t.Helper()
	s := &soaking{T: t, cfg: cfg, faults: &faultCounts{}, tally: &tally{}, work: workload.New(history.New()), rand: rand.New(rand.NewPCG(cfg.Seed, 1))}
	s.sessions = newSoakSessions(s.random(), s.faults)
	s.env = percolatortest.New(t, workload.Schema(cfg.Timing), s.configure())
	setup, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.work.Setup(setup, s.env.Client); err != nil {
		t.Fatal(err)
	}
	s.started = time.Now()
	s.run()
	s.Logf("quiet after %v", time.Since(s.started).Round(time.Second))
	report := s.finish()
	report.Seconds = cfg.Duration.Seconds()
	return report
}

// configure is for every client.
func (s *soaking) configure() percolatortest.ClientOption {
	return percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.LockTTL = s.cfg.LockTTL
		cfg.Oracle = s.sessions.beside(cfg.Oracle)
		cfg.Retention = time.Minute // the shortest; the oracle's clock makes up for it
	})
}

// random derives another source of randomness from the seed.
func (s *soaking) random() *rand.Rand {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rand.New(rand.NewPCG(s.rand.Uint64(), s.rand.Uint64()))
}

// run has everybody work for as long as the soak lasts.
func (s *soaking) run() {
	ctx, stop := context.WithTimeout(s.Context(), s.cfg.Duration)
	defer stop()
	for i := range s.cfg.Clients {
		s.occupy(fmt.Sprintf("client-%d", i+1), s.transact)
	}
	for i := range s.cfg.Workers {
		s.occupy(fmt.Sprintf("worker-%d", i+1), s.observe)
	}
	s.occupy("lingerer", s.linger)
	s.occupy("resolver", s.resolve)
	s.occupy("collector", s.collect)
	var others sync.WaitGroup
	others.Go(func() { s.moveClock(ctx) })
	others.Go(func() { s.pauseClients(ctx) })
	s.supervise(ctx)
	others.Wait()
	s.calm()
}

// supervise replaces clients that have crashed. It runs on the test's goroutine, as making clients
// may end the test.
func (s *soaking) supervise(ctx context.Context) {
	r := s.random()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	told := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, sl := range s.slots {
			sl.faults.Forget()
			if sl.faults.Crashed() && r.IntN(5) == 0 {
				sl.replace()
			}
		}
		if s.cfg.Progress > 0 && time.Since(told) >= s.cfg.Progress {
			told = time.Now()
			fmt.Printf("soak: %v of %v: %s; %s\n", time.Since(s.started).Round(time.Second), s.cfg.Duration, sum(s.work.Counts()), s.faults)
		}
	}
}

// calm ends all faults and all work, and waits for what is under way. Half of the clients do not
// live to see it.
func (s *soaking) calm() {
	for i, sl := range s.slots {
		if i%2 == 0 && s.cfg.Faults > 0 {
			sl.injector.dieIn(time.Hour) // no phase two
		}
	}
	pause(s.Context(), 400*time.Millisecond)
	for i, sl := range s.slots {
		if i%2 == 0 && s.cfg.Faults > 0 {
			s.faults.add("crash")
			sl.faults.Crash()
		}
	}
	for _, sl := range s.slots {
		sl.injector.calm()
		sl.faults.Resume()
	}
	for _, sl := range s.slots {
		sl.leave()
	}
	s.held.Wait()
	s.jumps.Wait()
	s.closing.Wait()
}

// moveClock has the oracle's clock jump: past the time to live of locks often, past the retention
// now and then.
func (s *soaking) moveClock(ctx context.Context) {
	r := s.random()
	for ctx.Err() == nil {
		pause(ctx, 20*time.Millisecond+time.Duration(r.Int64N(int64(180*time.Millisecond))))
		switch n := r.IntN(10); {
		case n < 4:
			s.env.Clock.Advance(time.Duration(r.Int64N(int64(s.cfg.LockTTL / 4))))
		case n < 7:
			s.env.Clock.Advance(s.cfg.LockTTL * 6 / 5)
		}
	}
}

// jumpAfter has locks that are there now die after d.
func (s *soaking) jumpAfter(d time.Duration) {
	s.jumps.Add(1)
	time.AfterFunc(d, func() {
		defer s.jumps.Done()
		s.env.Clock.Advance(s.cfg.LockTTL * 6 / 5)
	})
}

// pauseClients stops clients for a while, sometimes past the time to live of their locks.
func (s *soaking) pauseClients(ctx context.Context) {
	r := s.random()
	for ctx.Err() == nil {
		pause(ctx, time.Duration(r.Int64N(int64(500*time.Millisecond))))
		sl := s.slots[r.IntN(len(s.slots))]
		resume := sl.pause()
		s.faults.add("pause")
		if r.IntN(2) == 0 {
			s.env.Clock.Advance(s.cfg.LockTTL * 6 / 5)
		}
		pause(ctx, 10*time.Millisecond+time.Duration(r.Int64N(int64(s.cfg.Timing.RequestLifetime/2))))
		resume()
	}
}

// pause waits for d, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
