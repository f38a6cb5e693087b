package tso

import (
	"errors"
	"sync"
	"testing"
	"time"
)

func TestStoreFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		store := NewMemoryStore()
		failover(t, func(*testing.T) Store { return store })
	})
	t.Run("bigtable", func(t *testing.T) {
		t.Parallel()
		open := startBigtable(t, BigtableTable)
		failover(t, func(t *testing.T) Store { return NewBigtableStore(open(t), "default") })
	})
}

// failover lets leaders fail in every way that a store can notice, with one caller that
// asks all the time. open returns a new handle on the same record.
func failover(t *testing.T, open func(t *testing.T) Store) {
	const servers = 2
	lease := 900 * time.Millisecond
	record := open(t)
	var stores []*faultyStore
	var all []*served
	targets := ""
	for range servers {
		store := newFaultyStore(open(t))
		s := startServing(t, store, ServerConfig{Lease: lease, Window: lease})
		stores, all, targets = append(stores, store), append(all, s), targets+s.address+","
	}
	client := dial(t, targets, WithCallTimeout(200*time.Millisecond), WithTimeout(20*time.Second))

	w := newWitness()
	stop := make(chan struct{})
	var caller sync.WaitGroup
	caller.Go(func() {
		c := w.caller()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := c.call(true, func() (Timestamp, error) { return client.Next(t.Context()) }); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	leader := func(notThis int) (leader int) {
		eventually(t, "another server leads", func() bool {
			for i, s := range all {
				if s.alloc.report().holds && i != notThis {
					leader = i
					return true
				}
			}
			return false
		})
		return leader
	}
	getsOn := func() {
		t.Helper()
		seen := w.calls()
		eventually(t, "the caller gets on", func() bool { return w.calls() > seen+20 })
	}

	// The leader dies: it reaches nothing any more.
	dead := leader(-1)
	stores[dead].freeze()
	leader(dead)
	getsOn()
	if ts, err := all[dead].take(t.Context(), 1); !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNotLeader) {
		t.Errorf("the dead leader answers %d, %v", ts, err)
	}
	stores[dead].heal()

	// The leader loses every other answer of its writes, and goes on leading.
	now := leader(-1)
	epoch := stored(t, record).Epoch
	lost := 0
	stores[now].inject(func(op string) fault {
		if op != "swap" {
			return fine
		}
		if lost++; lost%2 == 1 {
			return answerLost
		}
		return fine
	})
	swaps := stores[now].swaps.Load()
	eventually(t, "six writes", func() bool { return stores[now].swaps.Load() >= swaps+6 })
	getsOn()
	stores[now].heal()
	if st := stored(t, record); st.Epoch != epoch {
		t.Logf("the leader changed although only answers were lost: epoch %d after %d", st.Epoch, epoch) // a slow machine may
	}

	// The leader is fenced: somebody has written the record.
	now = leader(-1)
	for fenced := false; !fenced; {
		old := stored(t, record)
		thief := old.successor()
		thief.Epoch, thief.Holder, thief.Address, thief.Lease = old.Epoch+1, "thief", "thief:1", lease*5/6
		err := record.CompareAndSwap(t.Context(), old, thief)
		if err != nil && !errors.Is(err, ErrFenced) {
			t.Fatal(err)
		}
		fenced = err == nil
		epoch = thief.Epoch
	}
	eventually(t, "somebody leads after the thief", func() bool { return stored(t, record).Epoch > epoch })
	getsOn()

	// And one hands over.
	now = leader(-1)
	all[now].stop()
	leader(now)
	getsOn()

	close(stop)
	caller.Wait()
	w.check(t)
	if mark := stored(t, record).HighWater; w.greatest() > mark {
		t.Errorf("served %d, stored only %d", w.greatest(), mark)
	}
}
