package tso

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// noon is when tests begin.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// manualClock is a clock that only a test moves.
type manualClock struct {
	mu sync.Mutex
	moment
}

func newManualClock() *manualClock { return &manualClock{moment: moment{time.Hour, time.Hour, noon}} }

func (c *manualClock) now() moment { c.mu.Lock(); defer c.mu.Unlock(); return c.moment }

func (c *manualClock) clock() clock {
	return clock{
		wall: func() time.Time { return c.now().wall },
		mono: func() time.Duration { return c.now().mono },
		boot: func() time.Duration { return c.now().boot },
	}
}

// lease returns a lease from now on.
func (c *manualClock) lease(d time.Duration) lease { return lease{from: c.now(), length: d} }

// advance lets time pass; jump moves the wall clock only.
func (c *manualClock) advance(d time.Duration) { c.move(moment{d, d, noon.Add(d)}) }
func (c *manualClock) jump(d time.Duration)    { c.move(moment{0, 0, noon.Add(d)}) }

// move moves the clocks by what by is after noon.
func (c *manualClock) move(by moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moment = moment{c.mono + by.mono, c.boot + by.boot, c.wall.Add(by.wall.Sub(noon))}
}

// shiftedClock follows the time of a synctest bubble, plus what a test adds to one of its clocks.
type shiftedClock struct{ wall, mono, boot atomic.Int64 }

func (c *shiftedClock) clock() clock {
	start := time.Now()
	return clock{
		wall: func() time.Time { return noon.Add(time.Since(start) + time.Duration(c.wall.Load())) },
		mono: func() time.Duration { return time.Since(start) + time.Duration(c.mono.Load()) },
		boot: func() time.Duration { return time.Since(start) + time.Duration(c.boot.Load()) },
	}
}

var errStore = errors.New("the store fails on purpose")

// faultyStore is a store in front of which a test puts faults.
type faultyStore struct {
	Store
	mu    sync.Mutex
	fault func(op string) fault
	swaps atomic.Int64
	loads atomic.Int64
}

// fault is what happens to a request.
type fault int

const (
	fine        fault = iota
	refused           // it fails and is not applied
	answerLost        // it is applied and fails
	hangs             // it is not applied, and fails when its context ends
	answerLate        // it is applied at once, and the answer takes lateBy
	appliedLate       // it fails, and is applied lateBy later
)

const lateBy = 400 * time.Millisecond

func newFaultyStore(s Store) *faultyStore { return &faultyStore{Store: s} }

// inject sets the faults from now on; op is "load" or "swap".
func (s *faultyStore) inject(f func(op string) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// failSwaps injects a fault into every swap.
func (s *faultyStore) failSwaps(f fault) {
	s.inject(func(op string) fault {
		if op == "swap" {
			return f
		}
		return fine
	})
}

// freeze cuts the server off, as if its process were stopped.
func (s *faultyStore) freeze() { s.inject(func(string) fault { return hangs }) }
func (s *faultyStore) heal()   { s.inject(nil) }

func (s *faultyStore) next(op string) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		return fine
	}
	return s.fault(op)
}

func (s *faultyStore) Load(ctx context.Context) (State, error) {
	s.loads.Add(1)
	switch s.next("load") {
	case hangs:
		<-ctx.Done()
		return State{}, ctx.Err()
	case refused, answerLost:
		return State{}, errStore
	}
	return s.Store.Load(ctx)
}

func (s *faultyStore) CompareAndSwap(ctx context.Context, old, next State) error {
	s.swaps.Add(1)
	switch s.next("swap") {
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case refused:
		return errStore
	case answerLost:
		if err := s.Store.CompareAndSwap(ctx, old, next); err != nil {
			return err
		}
		return errStore
	case appliedLate:
		go s.applyLate(old, next)
		return errStore
	case answerLate:
		err := s.Store.CompareAndSwap(ctx, old, next)
		return errors.Join(err, sleep(ctx, lateBy))
	}
	return s.Store.CompareAndSwap(ctx, old, next)
}

// applyLate applies a swap whose sender has given up.
func (s *faultyStore) applyLate(old, next State) {
	time.Sleep(lateBy)
	_ = s.Store.CompareAndSwap(context.Background(), old, next)
}

// stored returns the record.
func stored(t *testing.T, s Store) State {
	t.Helper()
	st, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// runner is a server that runs in a test.
type runner struct {
	*Server
	clock *shiftedClock
	stop  context.CancelFunc // hands over
	ended chan error
}

// startServer runs a server without a listener in a synctest bubble. It is stopped at
// the end of the test if it still runs.
func startServer(t *testing.T, store Store, cfg ServerConfig) *runner {
	t.Helper()
	c := &shiftedClock{}
	server, err := newServer(store, cfg, c.clock())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner{Server: server, clock: c, stop: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- server.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// wait returns what Run returned.
func (r *runner) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the server did not end")
		return nil
	}
}

// mustTake takes n timestamps from a server that must lead.
func (r *runner) mustTake(t *testing.T, n int) Timestamp {
	t.Helper()
	ts, err := r.take(t.Context(), n)
	if err != nil {
		t.Fatalf("taking %d timestamps: %v", n, err)
	}
	return ts
}

// mustRefuse expects an error of a kind.
func (r *runner) mustRefuse(t *testing.T, want error) {
	t.Helper()
	if ts, err := r.take(t.Context(), 1); !errors.Is(err, want) {
		t.Fatalf("got timestamp %d and error %v, want %v", ts, err, want)
	}
}

// inBubble runs f with a virtual clock, in parallel to other tests.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}
