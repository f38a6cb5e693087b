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
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// seat is a place for a client, and what is done with it. A client that crashes is replaced by a new one, as a process would be.
type seat struct {
	s    *soaking
	name string
	work func(ctx context.Context, st *seat, c *percolator.Client, r *rand.Rand)

	mu       sync.Mutex // of what replace changes, for pause
	client   *percolator.Client
	faults   *percolatortest.Faults
	injector *injector
	stop     context.CancelFunc
	working  *sync.WaitGroup
}

// sit makes a seat and has its client begin.
func (s *soaking) sit(name string, work func(context.Context, *seat, *percolator.Client, *rand.Rand)) {
	st := &seat{s: s, name: name, work: work}
	st.begin()
	s.seats = append(s.seats, st)
}

func (st *seat) begin() {
	s := st.s
	c := s.env.NewClient(percolatortest.Name(st.name), s.configure())
	st.mu.Lock()
	defer st.mu.Unlock()
	st.client, st.faults = c, s.env.FaultsOf(c)
	st.injector = newInjector(s.random(), s.cfg, s.faults, s.jumpAfter, &s.held)
	if st.name == "lingerer" {
		st.injector.staleMeta = s.cfg.Timing.MetaMaxAge * 3 / 4
	}
	st.faults.Handle(st.injector.decide)
	ctx, stop := context.WithCancel(s.Context())
	st.stop, st.working = stop, new(sync.WaitGroup)
	r := s.random()
	st.working.Go(func() { st.work(ctx, st, c, r) })
}

// end stops the work of a client, waits for it and closes the client.
func (st *seat) end() func() {
	c, faults, stop, working := st.client, st.faults, st.stop, st.working
	stop()
	return func() {
		working.Wait()
		if err := c.Close(); err != nil && !faults.Crashed() {
			st.s.Logf("closing %s: %v", st.name, err)
		}
		st.s.tally.add(c.Stats())
	}
}

// replace gives the seat a new client. The old one is dead: what is left of it is cleared away beside.
func (st *seat) replace() {
	st.s.closing.Go(st.end())
	st.begin()
}

// leave ends the seat.
func (st *seat) leave() { st.s.closing.Go(st.end()) }

// pause stops the client until resume is called.
func (st *seat) pause() (resume func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	f, in := st.faults, st.injector
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
func (s *soaking) transact(ctx context.Context, st *seat, c *percolator.Client, r *rand.Rand) {
	var sessions sync.WaitGroup
	faults := s.env.FaultsOf(c)
	for range s.cfg.Sessions {
		w := s.work.NewSession(c, st.name, faults.Crashed, rand.New(rand.NewPCG(r.Uint64(), r.Uint64())))
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
func (s *soaking) observe(ctx context.Context, st *seat, c *percolator.Client, _ *rand.Rand) {
	w, err := observers.NewWorker(c, s.work.Observers(st.name), observers.Config{
		Concurrency: 8, ScanInterval: 100 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, DrainTimeout: 2 * time.Second,
		MaxAttempts: 1000, DisableCollection: true,
	})
	if err != nil {
		s.problem("%v", err)
		return
	}
	if err := w.Run(ctx); err != nil {
		s.problem("%s: %v", st.name, err)
	}
	s.tally.addWorker(w.Stats())
}

// lingerers is how many snapshots last at a time.
const lingerers = 4

// linger keeps snapshots for a long time.
func (s *soaking) linger(ctx context.Context, st *seat, c *percolator.Client, r *rand.Rand) {
	var sessions sync.WaitGroup
	faults := s.env.FaultsOf(c)
	for range lingerers {
		w := s.work.NewSession(c, st.name, faults.Crashed, rand.New(rand.NewPCG(r.Uint64(), r.Uint64())))
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

// resolve settles locks, now and then, and most of them long after it has seen them: it has a memory of locks that are gone, as a tool would
// that somebody left open. It does not settle so many that nothing is left for others.
func (s *soaking) resolve(ctx context.Context, _ *seat, c *percolator.Client, r *rand.Rand) {
	tables := c.Schema().Tables
	for ctx.Err() == nil {
		rctx, cancel := context.WithTimeout(ctx, transactionLimit)
		var seen []admin.Lock
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

// remembered is how many locks the resolvers know, and recalled how many they settle at a time.
const (
	remembered = 500
	recalled   = 4
)

// remember adds locks to the memory and takes some from it at random.
func (s *soaking) remember(seen []admin.Lock, r *rand.Rand) []admin.Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks = append(s.locks, seen...)
	r.Shuffle(len(s.locks), func(i, j int) { s.locks[i], s.locks[j] = s.locks[j], s.locks[i] })
	n := min(len(s.locks), recalled)
	out := slices.Clone(s.locks[:n])
	s.locks = s.locks[n:min(len(s.locks), n+remembered)]
	return out
}

// resolveAgain settles, after everything has been collected, the locks that the resolver remembers. All of them are gone.
func (s *soaking) resolveAgain(ctx context.Context, c *percolator.Client) {
	for _, l := range s.locks {
		if res, err := admin.New(c).ResolveLock(ctx, l); err != nil {
			s.problem("a lock from memory: %v", err)
		} else {
			s.tally.resolved(res)
		}
	}
}
