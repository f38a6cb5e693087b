package tso

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// witness checks I1 for all callers of a test: what a call returns is greater than
// what any call returned that had finished when it began. It keeps a part of the
// calls as a history.
type witness struct {
	start   time.Time
	highest atomic.Int64 // of the calls that have finished
	seen    sync.Map     // timestamps

	mu      sync.Mutex
	history []porcupine.Operation
}

func newWitness() *witness { return &witness{start: time.Now()} }

// call makes one call, and keeps it in the history if keep is set.
func (w *witness) call(caller int, keep bool, next func() (Timestamp, error)) error {
	floor := w.highest.Load()
	called := time.Since(w.start)
	ts, err := next()
	returned := time.Since(w.start)
	if err != nil {
		return err // no timestamp: nothing to be in order
	}
	for highest := w.highest.Load(); int64(ts) > highest && !w.highest.CompareAndSwap(highest, int64(ts)); {
		highest = w.highest.Load()
	}
	if int64(ts) <= floor {
		return fmt.Errorf("I1 is broken: caller %d got %d, %d had been returned before it asked", caller, ts, floor)
	}
	if other, twice := w.seen.LoadOrStore(ts, caller); twice {
		return fmt.Errorf("I1 is broken: callers %d and %v both got %d", caller, other, ts)
	}
	if keep {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.history = append(w.history, porcupine.Operation{ClientId: caller, Call: int64(called), Output: ts, Return: int64(returned)})
	}
	return nil
}

// monotone is the specification: every call returns more than the one before.
var monotone = porcupine.Model{
	Init: func() any { return Timestamp(0) },
	Step: func(state, _, output any) (bool, any) { return output.(Timestamp) > state.(Timestamp), output },
}

// The checks have to be able to fail.
func TestWitnessNoticesDisorder(t *testing.T) {
	t.Parallel()
	op := func(caller int, call, ret int64, ts Timestamp) porcupine.Operation {
		return porcupine.Operation{ClientId: caller, Call: call, Return: ret, Output: ts}
	}
	if !porcupine.CheckOperations(monotone, []porcupine.Operation{op(0, 0, 10, 5), op(1, 1, 9, 4), op(0, 11, 12, 6)}) {
		t.Error("a history in order is refused")
	}
	if porcupine.CheckOperations(monotone, []porcupine.Operation{op(0, 0, 10, 5), op(1, 11, 12, 4)}) {
		t.Error("a history out of order is accepted")
	}
	answer := func(ts Timestamp) func() (Timestamp, error) {
		return func() (Timestamp, error) { return ts, nil }
	}
	w := newWitness()
	if err := w.call(0, true, answer(5)); err != nil {
		t.Error(err)
	}
	if w.call(1, true, answer(4)) == nil || w.call(1, true, answer(5)) == nil {
		t.Error("the witness accepts disorder")
	}
}

func TestOrderUnderManyCallers(t *testing.T) {
	t.Parallel()
	s := serve(t, NewMemoryStore(), ServerConfig{})
	oracles := []Oracle{dial(t, s.address), dial(t, s.address), s}
	w := newWitness()
	var wg sync.WaitGroup
	for caller := range 64 {
		wg.Go(func() {
			for range 200 {
				if err := w.call(caller, false, func() (Timestamp, error) { return oracles[caller%len(oracles)].Next(t.Context()) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// warpedClock is a wall clock that a test sets.
type warpedClock struct{ by atomic.Int64 }

func (c *warpedClock) now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// cluster is three servers of one oracle, each with a store that can be cut off and a
// clock that can be set.
type cluster struct {
	store   Store
	servers []*served
	stores  []*faultyStore
	clocks  []*warpedClock
}

func startCluster(t *testing.T) *cluster {
	c := &cluster{store: NewMemoryStore()}
	for range 3 {
		store, clock := newFaultyStore(c.store), &warpedClock{}
		c.stores, c.clocks = append(c.stores, store), append(c.clocks, clock)
		c.servers = append(c.servers, serve(t, store, ServerConfig{Lease: 240 * time.Millisecond, Window: 240 * time.Millisecond, Now: clock.now}))
	}
	return c
}

// leader waits for a server other than the given one to lead.
func (c *cluster) leader(t *testing.T, notThis int) (leader int) {
	t.Helper()
	eventually(t, "another server leads", func() bool {
		for i, s := range c.servers {
			if _, leads := s.alloc.counts(); leads && i != notThis {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// Next is linearizable while leaders are cut off from the store, lose answers, and
// have their clocks set; former leaders are called at their own addresses all the
// time.
func TestOrderAcrossFailovers(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	targets := c.servers[0].address + "," + c.servers[1].address + "," + c.servers[2].address
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := newWitness()
	var calls atomic.Int64
	var wg sync.WaitGroup
	run := func(caller int, every int, next func() (Timestamp, error)) {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				err := w.call(caller, i%every == 0, next)
				switch {
				case err == nil:
					calls.Add(1)
				case ctx.Err() == nil:
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 3 {
		client := dial(t, targets, WithCallTimeout(200*time.Millisecond))
		for j := range 4 {
			run(4*i+j, 4, func() (Timestamp, error) { return client.Next(ctx) })
		}
		raw := rawClient(t, c.servers[i].address)
		run(12+i, 1, func() (Timestamp, error) {
			for ctx.Err() == nil {
				resp, err := raw.Next(ctx, &tsopb.NextRequest{Count: 1})
				if err == nil {
					return Timestamp(resp.GetFirst()), nil
				}
				if err := sleep(ctx, time.Millisecond); err != nil {
					return 0, err
				}
			}
			return 0, ctx.Err()
		})
	}

	enough := func() { // calls are made in every state
		t.Helper()
		seen := calls.Load()
		eventually(t, "the callers get on", func() bool { return calls.Load() > seen+500 })
	}
	for _, trouble := range []func(leader int){
		func(leader int) { c.stores[leader].freeze() },
		func(leader int) { c.stores[leader].failSwaps(answerLost) },
		func(leader int) { c.clocks[leader].by.Add(int64(time.Hour)) },
		func(leader int) { c.stores[leader].failSwaps(refused) },
		func(leader int) { c.clocks[leader].by.Add(-int64(time.Hour)) },
	} {
		leader := c.leader(t, -1)
		trouble(leader)
		enough()
		c.stores[leader].freeze()
		c.leader(t, leader)
		enough()
		c.stores[leader].heal()
	}
	last := c.leader(t, -1)
	c.servers[last].stop() // and one planned
	c.leader(t, last)
	enough()
	cancel()
	wg.Wait()
	if epochs := stored(t, c.store).Epoch; epochs < 7 {
		t.Errorf("%d epochs, want 7 leaders at least", epochs)
	}

	begun := time.Now()
	result := porcupine.CheckOperationsTimeout(monotone, w.history, 5*time.Second)
	t.Logf("%d calls, of which porcupine looked at %d for %v: %v", calls.Load(), len(w.history), time.Since(begun), result)
	if result != porcupine.Ok {
		t.Errorf("the history is %v, not linearizable", result)
	}
}

// A former leader refuses at its own address as soon as it cannot know any more
// whether it leads.
func TestOrderFormerLeaderRefuses(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	former := c.leader(t, -1)
	raw := rawClient(t, c.servers[former].address)
	if _, err := raw.Next(t.Context(), &tsopb.NextRequest{Count: 1}); err != nil {
		t.Fatal(err)
	}
	c.stores[former].freeze()
	c.leader(t, former)
	if resp, err := raw.Next(t.Context(), &tsopb.NextRequest{Count: 1}); err == nil {
		t.Errorf("it handed out %d", resp.GetFirst())
	}
	if _, err := c.servers[former].alloc.take(t.Context(), 1); !errors.Is(err, ErrUnavailable) && !errors.Is(err, errNotLeading) {
		t.Errorf("it answers %v", err)
	}
}
