package emulator_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// slot holds a client and its work. A client that crashes is replaced by a new one, as a process
// would be.
type slot struct {
	s    *soaking
	name string
	work func(ctx context.Context, sl *slot, c *percolator.Client, r *rand.Rand)

	mu       sync.Mutex // of what replace changes, for pause
	client   *percolator.Client
	faults   *percolatortest.Faults
	injector *injector
	stop     context.CancelFunc
	working  *sync.WaitGroup
}

// occupy makes a slot and has its client begin.
func (s *soaking) occupy(name string, work func(context.Context, *slot, *percolator.Client, *rand.Rand)) {
	sl := &slot{s: s, name: name, work: work}
	sl.begin()
	s.slots = append(s.slots, sl)
}

func (sl *slot) begin() {
	s := sl.s
	c := s.env.NewClient(percolatortest.Name(sl.name), s.configure())
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.client, sl.faults = c, s.env.FaultsOf(c)
	sl.injector = newInjector(s.random(), s.cfg, s.faults, s.jumpAfter, &s.held)
	if sl.name == "lingerer" {
		sl.injector.staleMeta = s.cfg.Timing.MetaMaxAge * 3 / 4
	}
	sl.faults.Handle(sl.injector.decide)
	ctx, stop := context.WithCancel(s.Context())
	sl.stop, sl.working = stop, new(sync.WaitGroup)
	r := s.random()
	sl.working.Go(func() { sl.work(ctx, sl, c, r) })
}

// end stops the work of a client, waits for it and closes the client.
func (sl *slot) end() func() {
	c, faults, stop, working := sl.client, sl.faults, sl.stop, sl.working
	stop()
	return func() {
		working.Wait()
		if err := c.Close(); err != nil && !faults.Crashed() {
			sl.s.Logf("closing %s: %v", sl.name, err)
		}
		sl.s.tally.add(c.Stats())
	}
}

// replace gives the slot a new client; what is left of the dead one is cleared away meanwhile.
func (sl *slot) replace() {
	sl.s.closing.Go(sl.end())
	sl.begin()
}

// leave ends the slot.
func (sl *slot) leave() { sl.s.closing.Go(sl.end()) }

// pause stops the client until resume is called.
func (sl *slot) pause() (resume func()) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	f, in := sl.faults, sl.injector
	in.paused()
	f.Pause()
	return func() {
		in.paused()
		f.Resume()
	}
}

// transactionLimit bounds a transaction.
const transactionLimit = 5 * time.Second

// transact makes transactions in several sessions.
func (s *soaking) transact(ctx context.Context, sl *slot, c *percolator.Client, r *rand.Rand) {
	var sessions sync.WaitGroup
	faults := s.env.FaultsOf(c)
	for range s.cfg.Sessions {
		w := s.work.NewSession(c, sl.name, faults.Crashed, rand.New(rand.NewPCG(r.Uint64(), r.Uint64())))
		sessions.Go(func() {
			for ctx.Err() == nil && !faults.Crashed() {
				tctx, cancel := context.WithTimeout(ctx, transactionLimit)
				w.Step(tctx)
				cancel()
			}
		})
	}
	sessions.Wait()
}

// observe runs the observers.
func (s *soaking) observe(ctx context.Context, sl *slot, c *percolator.Client, _ *rand.Rand) {
	w, err := observers.NewWorker(c, s.work.Observers(sl.name, c), observers.Config{
		Concurrency: 8, ScanInterval: 100 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, DrainTimeout: 2 * time.Second,
		MaxAttempts: 1000, DisableCollection: true,
	})
	if err != nil {
		s.problem("%v", err)
		return
	}
	if err := w.Run(ctx); err != nil {
		s.problem("%s: %v", sl.name, err)
	}
	s.tally.addWorker(w.Stats())
}

// lingerers is how many snapshots last at a time.
const lingerers = 4

// linger keeps snapshots for a long time.
func (s *soaking) linger(ctx context.Context, sl *slot, c *percolator.Client, r *rand.Rand) {
	var sessions sync.WaitGroup
	faults := s.env.FaultsOf(c)
	for range lingerers {
		w := s.work.NewSession(c, sl.name, faults.Crashed, rand.New(rand.NewPCG(r.Uint64(), r.Uint64())))
		sessions.Go(func() {
			for ctx.Err() == nil && !faults.Crashed() {
				lctx, cancel := context.WithTimeout(ctx, 4*transactionLimit)
				w.Linger(lctx)
				cancel()
			}
		})
	}
	sessions.Wait()
}

// resolve resolves locks now and then, most of them long after it has seen them: it has a memory of
// locks that are gone, as a tool would that somebody left open. It does not resolve so many that
// nothing is left for others.
func (s *soaking) resolve(ctx context.Context, _ *slot, c *percolator.Client, r *rand.Rand) {
	tables := c.Schema().Tables
	for ctx.Err() == nil {
		rctx, cancel := context.WithTimeout(ctx, transactionLimit)
		var seen []model.Lock
		for p, err := range admin.New(c).ScanPending(rctx, tables[r.IntN(len(tables))].Name, percolator.All()) {
			if err != nil {
				break
			}
			seen = append(seen, p.Locks...)
		}
		for _, l := range s.remember(seen, r) {
			if res, err := admin.New(c).ResolveLock(rctx, l); err == nil {
				s.tally.resolved(res)
			}
		}
		cancel()
		pause(ctx, time.Duration(r.Int64N(int64(200*time.Millisecond))))
	}
}

// remembered is how many locks the resolvers know, and recalled how many they resolve at a time.
const (
	remembered = 500
	recalled   = 4
)

// remember adds locks to the memory and takes some from it at random.
func (s *soaking) remember(seen []model.Lock, r *rand.Rand) []model.Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks = append(s.locks, seen...)
	r.Shuffle(len(s.locks), func(i, j int) { s.locks[i], s.locks[j] = s.locks[j], s.locks[i] })
	n := min(len(s.locks), recalled)
	out := slices.Clone(s.locks[:n])
	s.locks = s.locks[n:min(len(s.locks), n+remembered)]
	return out
}

// resolveAgain resolves, after everything has been collected, the locks that the resolver
// remembers. All of them are gone.
func (s *soaking) resolveAgain(ctx context.Context, c *percolator.Client) {
	for _, l := range s.locks {
		if res, err := admin.New(c).ResolveLock(ctx, l); err != nil {
			s.problem("a lock from memory: %v", err)
		} else {
			s.tally.resolved(res)
		}
	}
}
