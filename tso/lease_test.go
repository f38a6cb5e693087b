package tso

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLeaseFirstServerLeadsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		a := startServer(t, store, ServerConfig{Advertise: "a:1"})
		synctest.Wait()
		first := a.mustTake(t, 1)
		st := stored(t, store)
		want := State{
			Version: 1, Nonce: st.Nonce, Epoch: 1, Holder: a.elector.id, Address: "a:1",
			Lease: 2500 * time.Millisecond, HighWater: At(noon) + 3*second,
		}
		if st != want {
			t.Errorf("stored %+v, want %+v", st, want)
		}
		if first != At(noon) {
			t.Errorf("first timestamp %d, want the clock's %d", first, At(noon))
		}
	})
}

// What is served has been reserved before: at any moment, also while the store fails.
func TestLeaseReservesBeforeServing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := NewMemoryStore()
		store := newFaultyStore(memory)
		a := startServer(t, store, ServerConfig{Lease: time.Hour, Window: time.Second})
		synctest.Wait()
		check := func(n int) error {
			first, err := a.take(t.Context(), n)
			if err != nil {
				return err
			}
			if last, mark := first+Timestamp(n)-1, stored(t, memory).HighWater; last > mark {
				t.Fatalf("served %d, stored only %d", last, mark)
			}
			return nil
		}
		for range 5000 {
			if err := check(2048); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond / 4)
		}

		store.failSwaps(refused)
		served := 0
		for ; ; served++ {
			if err := check(4096); errors.Is(err, ErrUnavailable) && strings.Contains(err.Error(), errStore.Error()) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if limit := int(second / 4096); served > limit {
			t.Errorf("served %d blocks without the store, a window has %d", served, limit)
		}
		store.heal()
		time.Sleep(time.Second)
		if err := check(1); err != nil {
			t.Errorf("after the store is back: %v", err)
		}
	})
}

// The number of writes depends on the time alone.
func TestLeaseWritesDoNotDependOnTheRate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultyStore(NewMemoryStore())
		a := startServer(t, store, ServerConfig{})
		synctest.Wait()
		for range 60 * 10 {
			for range 100 {
				a.mustTake(t, 1000) // a million a second
			}
			time.Sleep(100 * time.Millisecond)
		}
		if writes := store.swaps.Load(); writes < 60 || writes > 62 {
			t.Errorf("%d writes in a minute, want one a second", writes)
		}
	})
}

func TestLeaseRestartNeverGoesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		var last Timestamp
		for i := range 5 {
			a := startServer(t, store, ServerConfig{})
			if i > 0 { // a clock that is an hour behind from then on
				a.clock.wall.Store(-int64(time.Hour))
			}
			ts, err := a.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if ts <= last {
				t.Fatalf("start %d: %d after %d", i, ts, last)
			}
			last = ts + 999
			if got := a.mustTake(t, 999); got != ts+1 {
				t.Fatalf("got %d after %d", got, ts)
			}
			a.stop()
			if err := a.wait(t); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A successor leads when the lease has run out, not earlier, and within the
// configured time.
func TestLeaseFailover(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := NewMemoryStore()
		frozen := newFaultyStore(memory)
		a := startServer(t, frozen, ServerConfig{Advertise: "a:1"})
		synctest.Wait()
		b := startServer(t, memory, ServerConfig{Advertise: "b:1"})
		time.Sleep(10*time.Second + 300*time.Millisecond)

		before := a.mustTake(t, 100)
		renewed := stored(t, memory)
		frozen.freeze()
		died := time.Now()
		var follower *NotLeaderError
		if _, err := b.take(t.Context(), 1); !errors.As(err, &follower) || follower.Leader != "a:1" {
			t.Fatalf("the follower answers %v, want a:1", err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		after, err := b.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(died); waited < 2*time.Second || waited > 3*time.Second {
			t.Errorf("the successor led after %v", waited)
		}
		if after <= renewed.HighWater || after <= before+99 {
			t.Errorf("the successor began with %d, the mark was %d", after, renewed.HighWater)
		}
		if st := stored(t, memory); st.Epoch != 2 || st.Holder != b.elector.id || st.Address != "b:1" {
			t.Errorf("stored %+v", st)
		}
		a.mustRefuse(t, ErrUnavailable) // its lease is over by its own clock

		frozen.heal()
		time.Sleep(time.Second)
		a.mustRefuse(t, ErrNotLeader) // and now it knows who leads
		if got := a.elector.leaderAddress(); got != "b:1" {
			t.Errorf("the former leader names %q", got)
		}
	})
}

// The leader has stopped by its own clock before a successor can start, also when the
// answer to the write that got it the lease was late or lost.
func TestLeaseNeverTwoLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := NewMemoryStore()
		stores := []*faultyStore{newFaultyStore(memory), newFaultyStore(memory)}
		servers := []*runner{startServer(t, stores[0], ServerConfig{}), startServer(t, stores[1], ServerConfig{})}
		leads := func(i int) bool {
			leading := servers[i].alloc.report().holds
			return leading
		}
		for round := range 20 {
			time.Sleep(time.Second + time.Duration(round)*37*time.Millisecond)
			leader := 0
			if leads(1) {
				leader = 1
			}
			if !leads(leader) {
				t.Fatalf("round %d: nobody leads", round)
			}
			stores[leader].failSwaps([]fault{answerLate, answerLost}[round%2])
			time.Sleep(time.Second + lateBy + 100*time.Millisecond)
			stores[leader].freeze()
			var stopped, started time.Time
			for started.IsZero() {
				if leads(0) && leads(1) {
					t.Fatalf("round %d: two servers lead", round)
				}
				if !leads(leader) && stopped.IsZero() {
					stopped = time.Now()
				}
				if leads(1 - leader) {
					started = time.Now()
				}
				time.Sleep(time.Millisecond)
			}
			if stopped.IsZero() || !stopped.Before(started) {
				t.Fatalf("round %d: the leader stopped at %v, the successor began at %v", round, stopped, started)
			}
			stores[leader].heal()
		}
	})
}

// A process that was stopped and continued refuses by its own clock, without asking
// the store.
func TestLeaseStoppedAndContinued(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := NewMemoryStore()
		frozen := newFaultyStore(memory)
		a := startServer(t, frozen, ServerConfig{})
		synctest.Wait()
		b := startServer(t, memory, ServerConfig{})
		synctest.Wait()
		a.mustTake(t, 1)

		frozen.freeze() // nothing of a runs …
		time.Sleep(5 * time.Second)
		served := b.mustTake(t, 1)
		a.mustRefuse(t, ErrUnavailable) // … and now it is called
		frozen.heal()
		time.Sleep(3 * time.Second)
		a.mustRefuse(t, ErrNotLeader)
		if next := b.mustTake(t, 1); next <= served {
			t.Errorf("%d after %d", next, served)
		}
	})
}

// Only one clock has gone on: the first call is refused although no renewal was due, or waits for
// the renewal where the wall clock may have been set.
func TestLeaseEndsByEachClock(t *testing.T) {
	for name, one := range map[string]func(*shiftedClock) *atomic.Int64{
		"monotonic": func(c *shiftedClock) *atomic.Int64 { return &c.mono },
		"boot time": func(c *shiftedClock) *atomic.Int64 { return &c.boot },
		"wall":      func(c *shiftedClock) *atomic.Int64 { return &c.wall },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := newFaultyStore(NewMemoryStore())
				a := startServer(t, store, ServerConfig{Window: time.Hour})
				synctest.Wait()
				a.mustTake(t, 1)
				one(a.clock).Store(int64(10 * time.Second))
				before := store.swaps.Load()
				if name != "wall" {
					a.mustRefuse(t, ErrUnavailable)
					synctest.Wait() // nobody else has taken the lease: it is renewed at once
				}
				a.mustTake(t, 1)
				if writes := store.swaps.Load() - before; writes != 1 {
					t.Errorf("%d writes until it served again, want 1", writes)
				}
			})
		})
	}
}

// The machine of the leader was suspended, and one of its clocks shows that. Its successor serves,
// and the former leader refuses by itself, without the store.
func TestLeaseOfASuspendedMachine(t *testing.T) {
	for name, stoodStill := range map[string]func(*shiftedClock) []*atomic.Int64{
		"boot time shows it": func(c *shiftedClock) []*atomic.Int64 { return []*atomic.Int64{&c.mono, &c.wall} },
		"wall shows it":      func(c *shiftedClock) []*atomic.Int64 { return []*atomic.Int64{&c.mono, &c.boot} },
	} {
		for _, d := range []time.Duration{2800 * time.Millisecond, 5 * time.Second} {
			t.Run(name+" after "+d.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := startPair(t)
					a, b := p.a, p.b
					a.mustTake(t, 1)
					p.frozen.freeze()
					time.Sleep(d)
					served := b.mustTake(t, 1)
					for _, c := range stoodStill(a.clock) {
						c.Add(-int64(d))
					}
					a.mustRefuse(t, ErrUnavailable)
					p.frozen.heal()
					time.Sleep(3 * time.Second)
					a.mustRefuse(t, ErrNotLeader)
					if next := b.mustTake(t, 1); next <= served {
						t.Errorf("%d after %d", next, served)
					}
				})
			})
		}
	}
}

func TestLeaseHandOver(t *testing.T) {
	// Whenever it happens between two of the follower's looks at the record.
	for phase := time.Duration(0); phase < 130*time.Millisecond; phase += 10 * time.Millisecond {
		t.Run(phase.String(), func(t *testing.T) { handOver(t, phase) })
	}
}

func handOver(t *testing.T, phase time.Duration) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		a := startServer(t, store, ServerConfig{Advertise: "a:1"})
		synctest.Wait()
		b := startServer(t, store, ServerConfig{Advertise: "b:1"})
		time.Sleep(7*time.Second + phase)
		last := a.mustTake(t, 100) + 99

		started := time.Now()
		a.stop()
		if err := a.wait(t); err != nil {
			t.Fatal(err)
		}
		switch st := stored(t, store); {
		case st.Epoch == 2 && st.Address == "b:1": // it has looked in the same instant, and has it already
		case st.held() || st.Address != "" || st.Lease != 0 || st.Epoch != 1:
			t.Errorf("handed over as %+v", st)
		}
		first, err := b.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(started); waited > 200*time.Millisecond {
			t.Errorf("the hand-over took %v", waited)
		}
		if first <= last {
			t.Errorf("%d after %d", first, last)
		}
		if _, err := a.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("a server that has ended answers %v", err)
		}
	})
}

func TestServerRunsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startServer(t, NewMemoryStore(), ServerConfig{})
		synctest.Wait()
		if err := a.Run(t.Context()); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("a second Run returned %v", err)
		}
	})
}

func TestServerNextWaitsForLeadership(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		server, err := NewServer(NewMemoryStore(), ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		if _, err := server.Next(t.Context()); !errors.Is(err, ErrNotLeader) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a server that does not run: %v", err)
		}
		if waited := time.Since(started); waited != nextTimeout {
			t.Errorf("waited %v, want %v", waited, nextTimeout)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := server.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}
