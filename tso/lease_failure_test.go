package tso

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// A lease that was got by a write whose answer never came is handed over too.
func TestLeaseHandOverOfUnsettledLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultyStore(NewMemoryStore())
		store.failSwaps(answerLost)
		// The memory store resolves lost answers at once, so the fault is put above
		// it: the server goes on asking.
		a := startServer(t, store, ServerConfig{})
		time.Sleep(50 * time.Millisecond)
		if !stored(t, store.Store).held() {
			t.Fatal("the lease was not taken")
		}
		store.inject(func(op string) fault {
			if op == "swap" && a.elector.ambiguous {
				return fine
			}
			return map[string]fault{"swap": answerLost}[op]
		})
		a.stop()
		if err := a.wait(t); err != nil {
			t.Fatal(err)
		}
		if st := stored(t, store.Store); st.held() {
			t.Errorf("the lease was left behind: %+v", st)
		}
	})
}

func TestLeaseLostAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultyStore(NewMemoryStore())
		n := 0
		store.inject(func(op string) fault { // two of three writes, one of three readings
			n++
			if op == "swap" && n%3 != 0 {
				return answerLost
			}
			if op == "load" && n%3 == 0 {
				return refused
			}
			return fine
		})
		a := startServer(t, store, ServerConfig{})
		time.Sleep(3 * time.Second)
		var last Timestamp
		for range 300 {
			ts := a.mustTake(t, 1)
			if ts <= last {
				t.Fatalf("%d after %d", ts, last)
			}
			last = ts
			time.Sleep(100 * time.Millisecond)
		}
		if st := stored(t, store.Store); st.Epoch != 1 {
			t.Errorf("the leader changed: %+v", st)
		}
	})
}

// A record that somebody else writes ends the leadership at the next renewal at the
// latest.
func TestLeaseFenced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		a := startServer(t, store, ServerConfig{})
		synctest.Wait()
		a.mustTake(t, 1)
		old := stored(t, store)
		thief := old.successor()
		thief.Epoch, thief.Holder, thief.Address = 2, "thief", "thief:1"
		if err := store.CompareAndSwap(t.Context(), old, thief); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		var follower *NotLeaderError
		if _, err := a.take(t.Context(), 1); !errors.As(err, &follower) || follower.Leader != "thief:1" {
			t.Fatalf("got %v, want the thief's address", err)
		}
		if _, err := a.Next(t.Context()); err != nil { // the thief never renews
			t.Error(err)
		}
		if st := stored(t, store); st.Epoch != 3 || st.Holder != a.elector.id {
			t.Errorf("stored %+v", st)
		}
	})
}

// loadStore answers every Load with what a test wants.
type loadStore struct {
	Store
	load func() (State, error)
}

func (s *loadStore) Load(context.Context) (State, error) { return s.load() }

func TestLeaseRefusesToStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a damaged record": {record.Corruptf("row %q: found %q", "default", "rubbish"), "rubbish"},
		"no table":         {status.Error(codes.NotFound, "table percolator_meta not found"), "percolator_meta"},
		"no permission":    {status.Error(codes.PermissionDenied, "may not read"), "may not read"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := startServer(t, &loadStore{Store: NewMemoryStore(), load: func() (State, error) { return State{}, c.err }}, ServerConfig{})
				if err := a.wait(t); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Run returned %v", err)
				}
				a.mustRefuse(t, ErrNotLeader)
			})
		})
	}
}

func TestLeaseWaitsForAStoreThatIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultyStore(NewMemoryStore())
		store.inject(func(string) fault { return refused })
		a := startServer(t, store, ServerConfig{})
		time.Sleep(time.Minute)
		a.mustRefuse(t, ErrNotLeader)
		store.heal()
		if _, err := a.Next(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A store that has lost writes is noticed by leaders and followers; both stop.
func TestLeaseStopsWhenTheRecordGoesBack(t *testing.T) {
	t.Parallel()
	for name, rewind := range map[string]func(old State) State{
		"gone": func(State) State { return State{} },
		"restored from a backup": func(old State) State {
			old.Version, old.HighWater = old.Version-2, old.HighWater-second
			return old
		},
		"lower mark, higher version": func(old State) State {
			old.Version, old.HighWater = old.Version+5, old.HighWater-1
			return old
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				memory := newMemory(recordState{})
				a := startServer(t, memory.store(), ServerConfig{})
				synctest.Wait()
				b := startServer(t, memory.store(), ServerConfig{})
				time.Sleep(5300 * time.Millisecond) // both have seen the same record
				a.mustTake(t, 1)

				memory.mu.Lock()
				memory.state = recordState(rewind(State(memory.state)))
				memory.mu.Unlock()
				for _, s := range []*runner{a, b} {
					if err := s.wait(t); !errors.Is(err, ErrCorrupt) {
						t.Errorf("Run returned %v", err)
					}
					s.mustRefuse(t, ErrNotLeader)
				}
			})
		})
	}
}

// The wall clocks of servers may be hours apart: leases do not care, and neither does
// order.
func TestLeaseWithWrongClocks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := NewMemoryStore()
		var last Timestamp
		for i, wrong := range []time.Duration{0, time.Hour, -time.Hour, 0, 26 * time.Hour, 0} {
			a := startServer(t, store, ServerConfig{})
			a.clock.wall.Store(int64(wrong))
			time.Sleep(200 * time.Millisecond)
			for range 50 {
				ts := a.mustTake(t, 10)
				if ts <= last {
					t.Fatalf("server %d, whose clock is off by %v: %d after %d", i, wrong, ts, last)
				}
				last = ts + 9
				time.Sleep(100 * time.Millisecond)
				if i%2 == 1 { // and the clock is being set
					a.clock.wall.Add(int64(wrong) / 10)
				}
			}
			a.stop()
			if err := a.wait(t); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// After an hour's jump forward the very next timestamp has the clock's new time.
func TestLeaseFollowsAJumpAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := startServer(t, NewMemoryStore(), ServerConfig{})
		synctest.Wait()
		a.mustTake(t, 1)
		a.clock.wall.Store(int64(time.Hour))
		want := a.elector.clock.now()
		if got := a.mustTake(t, 1); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	})
}

func TestLeaseExhausted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := newMemory(recordState{Version: 1, Nonce: "n", HighWater: MaxTimestamp})
		a := startServer(t, memory.store(), ServerConfig{})
		if err := a.wait(t); !errors.Is(err, ErrExhausted) {
			t.Errorf("Run returned %v", err)
		}
	})
}
