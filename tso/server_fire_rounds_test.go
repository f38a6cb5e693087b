package tso

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var fireRounds = flag.Int("fire.rounds", 8, "how many rounds TestFireRounds makes; at most 3 with -short")

// A round is a minute or so, of virtual time, in the life of three servers in one
// process that share a store: the leader dies, is stopped and continued, hands over;
// the store refuses, hangs, loses answers, and applies writes late; clocks are set by
// hours. Everything that happens follows from a seed, but for the order in which
// goroutines run.
type round struct {
	*witness
	t      *testing.T
	ctx    context.Context
	rng    *rand.Rand
	record Store
	seats  []*seat

	servers []*runner // all that ever ran

	mu    sync.Mutex
	found []error
}

// seat is a slot for a server. When its server has died, another sits there.
type seat struct {
	mu     sync.Mutex
	server *runner
	store  *faultyStore
	open   chan struct{} // closed while the server is not stopped
}

const (
	roundLease   = 600 * time.Millisecond
	roundSteps   = 16
	roundPatient = 10 * time.Second // of virtual time, for another server to lead
)

// runRound runs one round and returns what was found. It has to be called in a bubble.
func runRound(t *testing.T, seed uint64) []error {
	ctx, cancel := context.WithCancel(t.Context())
	r := &round{witness: newWitness(), t: t, ctx: ctx, rng: rand.New(rand.NewPCG(seed, 1)), record: NewMemoryStore()}
	if err := initialize(ctx, r.record, At(noon)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s := &seat{open: make(chan struct{})}
		close(s.open)
		r.sit(s)
		r.seats = append(r.seats, s)
	}
	var callers sync.WaitGroup
	for i, s := range r.seats {
		for j := range 2 {
			c := r.caller()
			callers.Go(func() { r.call(c, s, rand.New(rand.NewPCG(seed, uint64(10*i+j+2)))) })
		}
	}
	for n := 0; n < roundSteps && !r.failed(); n++ {
		r.step()
	}
	cancel()
	for _, s := range r.seats {
		s.continues()
	}
	for _, server := range r.servers {
		server.stop()
	}
	callers.Wait()
	for _, server := range r.servers {
		if err := server.wait(t); err != nil {
			r.find(err)
		}
	}
	time.Sleep(2 * lateBy) // until nothing is in flight any more
	if mark := stored(t, r.record).HighWater; r.greatest() > mark {
		r.find(fmt.Errorf("%w: served %d, stored only %d", errDisorder, r.greatest(), mark))
	}
	if twice := r.twice(); len(twice) > 0 {
		r.find(fmt.Errorf("%w: %d timestamps were returned more than once", errDisorder, len(twice)))
	}
	return r.found
}

func (r *round) find(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, err)
}

func (r *round) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.found) > 0
}

// sit starts a server at s.
func (r *round) sit(s *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = newFaultyStore(r.record)
	s.server = startServer(r.t, s.store, ServerConfig{Lease: roundLease, Window: roundLease})
	r.servers = append(r.servers, s.server)
}

func (s *seat) now() (*runner, *faultyStore, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server, s.store, s.open
}

// stops lets the calls to the server wait, and its requests to the store.
func (s *seat) stops() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = make(chan struct{})
	s.store.freeze()
}

// continues lets the waiting calls arrive before the server hears of the store.
func (s *seat) continues() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.open:
	default:
		close(s.open)
	}
}

// call calls the server at s until the round ends. What the server answers is of no
// interest unless it is a timestamp.
func (r *round) call(c *caller, s *seat, rng *rand.Rand) {
	for r.ctx.Err() == nil && !r.failed() {
		if err := c.call(false, func() (Timestamp, error) {
			_, _, open := s.now()
			<-open
			server, _, _ := s.now()
			return server.take(r.ctx, 1)
		}); errors.Is(err, errDisorder) {
			r.find(err)
		}
		_ = sleep(r.ctx, time.Duration(3+rng.IntN(5))*time.Millisecond)
	}
}

// leader waits until a server at another seat than the given one serves.
func (r *round) leader(notThis *seat) *seat {
	for waited := time.Duration(0); waited < roundPatient && !r.failed(); waited += 5 * time.Millisecond {
		for _, s := range r.seats {
			if server, _, _ := s.now(); s != notThis {
				if server.alloc.report().holds {
					return s
				}
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !r.failed() {
		r.find(fmt.Errorf("nobody leads for %v", roundPatient))
	}
	return nil
}

// step is one trouble: something happens to the leader's store, to its clock, and to
// itself.
func (r *round) step() {
	leads := r.leader(nil)
	if leads == nil {
		return
	}
	server, store, _ := leads.now()
	store.failSwaps([]fault{fine, refused, answerLost, answerLate, appliedLate, hangs}[r.rng.IntN(6)])
	if r.rng.IntN(2) == 0 {
		server.clock.wall.Store(int64([]time.Duration{0, time.Hour, -time.Hour}[r.rng.IntN(3)]))
	}
	r.pause(roundLease)
	switch r.rng.IntN(4) {
	case 0: // it dies, with what it has sent in flight
		store.freeze()
		server.stop()
		r.leader(leads)
		r.sit(leads)
	case 1: // it is stopped, and continued when another leads
		leads.stops()
		if r.leader(leads) != nil {
			r.pause(roundLease)
		}
		leads.continues()
	case 2: // it is ended
		server.stop()
		r.leader(leads)
		r.sit(leads)
	}
	r.pause(roundLease)
	_, store, _ = leads.now()
	store.heal()
	r.pause(2 * roundLease)
}

// pause lets up to d pass.
func (r *round) pause(d time.Duration) { time.Sleep(time.Duration(r.rng.Int64N(int64(d)))) }

// What a round finds of disorder, a subtest tells: nothing else shows that a mutant breaks I1.
func TestFireRounds(t *testing.T) {
	t.Parallel()
	rounds := *fireRounds
	if testing.Short() {
		rounds = min(rounds, 3)
	}
	for n := 0; n < rounds && !t.Failed(); n++ {
		seed := rand.Uint64()
		var found []error
		synctest.Test(t, func(t *testing.T) { found = runRound(t, seed) })
		for _, err := range found {
			if errors.Is(err, errDisorder) {
				t.Run("order", func(t *testing.T) { t.Errorf("seed %d: %v", seed, err) })
			} else {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
}
