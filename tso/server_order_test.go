package tso

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/tso/tsopb"
)

func TestOrderUnderManyCallers(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{})
	oracles := []Oracle{dial(t, s.address), dial(t, s.address), s}
	w := newWitness()
	var wg sync.WaitGroup
	for i := range 64 {
		c, oracle := w.caller(), oracles[i%len(oracles)]
		wg.Go(func() {
			for range 200 {
				if err := c.call(i < 6, func() (Timestamp, error) { return oracle.Next(t.Context()) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	w.check(t)
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
		c.servers = append(c.servers, startServing(t, store, ServerConfig{Lease: 240 * time.Millisecond, Window: 240 * time.Millisecond, Now: clock.now}))
	}
	return c
}

// leader waits for a server other than the given one to lead.
func (c *cluster) leader(t *testing.T, notThis int) (leader int) {
	t.Helper()
	eventually(t, "another server leads", func() bool {
		for i, s := range c.servers {
			if s.alloc.report().holds && i != notThis {
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
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	c := startCluster(t)
	targets := c.servers[0].address + "," + c.servers[1].address + "," + c.servers[2].address
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := newWitness()
	var wg sync.WaitGroup
	run := func(every int, next func() (Timestamp, error)) {
		c := w.caller()
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := c.call(i%every == 0, next); errors.Is(err, errDisorder) || err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				_ = sleep(ctx, time.Millisecond)
			}
		})
	}
	for i := range 3 {
		client := dial(t, targets, WithCallTimeout(200*time.Millisecond))
		for range 4 {
			run(4, func() (Timestamp, error) { return client.Next(ctx) })
		}
		raw := rawClient(t, c.servers[i].address)
		run(1, func() (Timestamp, error) {
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
		w.part.Add(1)
		seen := w.calls()
		eventually(t, "the callers get on", func() bool { return w.calls() > seen+500 })
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
	if mark := stored(t, c.store).HighWater; w.greatest() > mark {
		t.Errorf("served %d, stored only %d", w.greatest(), mark)
	}
	w.check(t)
}

// A former leader refuses at its own address as soon as it cannot know any more
// whether it leads.
func TestOrderFormerLeaderRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	c := startCluster(t)
	var former int
	var raw tsopb.OracleClient
	eventually(t, "the leader answers", func() bool { // another may lead in between, on a busy machine
		former = c.leader(t, -1)
		raw = rawClient(t, c.servers[former].address)
		_, err := raw.Next(t.Context(), &tsopb.NextRequest{Count: 1})
		return err == nil
	})
	c.stores[former].freeze()
	c.leader(t, former)
	if resp, err := raw.Next(t.Context(), &tsopb.NextRequest{Count: 1}); err == nil {
		t.Errorf("it handed out %d", resp.GetFirst())
	}
	if _, err := c.servers[former].alloc.take(t.Context(), 1); !errors.Is(err, ErrUnavailable) && !errors.Is(err, errNotLeading) {
		t.Errorf("it answers %v", err)
	}
}
