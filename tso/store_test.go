package tso

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// first is a record that may be the first one.
func first() State {
	st := State{}.successor()
	st.Epoch, st.Holder, st.Address, st.Lease, st.HighWater = 1, "holder-1", "host:1", time.Second, 1000
	return st
}

// conformance runs what every store has to fulfil. open returns a new handle, of a
// server of its own, on the record of the oracle called name.
func conformance(t *testing.T, open func(t *testing.T, name string) Store) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	load := func(t *testing.T, s Store) State {
		t.Helper()
		st, err := s.Load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	swap := func(t *testing.T, s Store, old, next State) {
		t.Helper()
		if err := s.CompareAndSwap(ctx, old, next); err != nil {
			t.Fatal(err)
		}
		if got := load(t, s); got != next {
			t.Fatalf("stored %+v, want %+v", got, next)
		}
	}

	t.Run("empty", func(t *testing.T) {
		if got := load(t, open(t, "empty")); got != (State{}) {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("swaps", func(t *testing.T) {
		a, b := open(t, "swaps"), open(t, "swaps")
		one := first()
		swap(t, a, State{}, one)
		two := one.successor()
		two.HighWater++
		swap(t, b, one, two)
		if got := load(t, a); got != two {
			t.Errorf("the other handle reads %+v, want %+v", got, two)
		}
	})

	t.Run("keeps every field", func(t *testing.T) {
		s := open(t, "fields")
		one := first()
		swap(t, s, State{}, one)
		large := State{
			Version: 2, Nonce: strings.Repeat("n", record.MaxNonceBytes), Epoch: 2,
			Holder: strings.Repeat("h", record.MaxHolderBytes), Address: strings.Repeat("é", record.MaxAddressBytes/2),
			Lease: record.MaxLease, HighWater: MaxTimestamp,
		}
		swap(t, s, one, large)
		odd := large
		odd.Version, odd.Nonce, odd.Holder, odd.Lease = 3, "\"\\\x00<&>\u2028", "\n", 1
		swap(t, s, large, odd)
		free := State{Version: 4, Nonce: "n", Epoch: 3, HighWater: MaxTimestamp}
		swap(t, s, odd, free)
	})

	t.Run("fences", func(t *testing.T) {
		s := open(t, "fences")
		one := first()
		swap(t, s, State{}, one)
		two := one.successor()
		swap(t, s, one, two)

		sameVersion := one
		sameVersion.Nonce = "another"
		differs := two
		differs.HighWater++
		for name, c := range map[string]struct{ old, next State }{
			"already exists":         {State{}, first()},
			"an older record":        {one, one.successor()},
			"another nonce":          {sameVersion, sameVersion.successor()},
			"another mark":           {differs, differs.successor()},
			"a record of the future": {two.successor(), two.successor().successor()},
		} {
			if c.next.Version != c.old.Version+1 {
				c.next.Version = c.old.Version + 1
			}
			if err := s.CompareAndSwap(ctx, c.old, c.next); !errors.Is(err, ErrFenced) {
				t.Errorf("%s: %v, want ErrFenced", name, err)
			}
			if got := load(t, s); got != two {
				t.Fatalf("%s changed the record to %+v", name, got)
			}
		}
	})

	t.Run("fences where nothing is stored", func(t *testing.T) {
		s := open(t, "nothing")
		one := first()
		if err := s.CompareAndSwap(ctx, one, one.successor()); !errors.Is(err, ErrFenced) {
			t.Errorf("%v, want ErrFenced", err)
		}
		if got := load(t, s); got != (State{}) {
			t.Errorf("stored %+v", got)
		}
	})

	t.Run("the same swap again", func(t *testing.T) {
		a, b := open(t, "again"), open(t, "again")
		one := first()
		swap(t, a, State{}, one)
		swap(t, a, State{}, one)
		two := one.successor()
		swap(t, a, one, two)
		swap(t, b, one, two)
		three := two.successor()
		swap(t, b, two, three)
		if err := a.CompareAndSwap(ctx, one, two); !errors.Is(err, ErrFenced) {
			t.Errorf("after it was replaced: %v, want ErrFenced", err)
		}
	})

	t.Run("refuses what does not follow", func(t *testing.T) {
		s := open(t, "steps")
		one := first()
		swap(t, s, State{}, one)
		for name, change := range map[string]func(*State){
			"lower mark":           func(st *State) { st.HighWater-- },
			"mark out of range":    func(st *State) { st.HighWater = MaxTimestamp + 1 },
			"lower epoch":          func(st *State) { st.Epoch-- },
			"epoch skipped":        func(st *State) { st.Epoch += 2 },
			"same version":         func(st *State) { st.Version-- },
			"version skipped":      func(st *State) { st.Version++ },
			"same nonce":           func(st *State) { st.Nonce = one.Nonce },
			"no nonce":             func(st *State) { st.Nonce = "" },
			"nonce too long":       func(st *State) { st.Nonce = strings.Repeat("n", record.MaxNonceBytes+1) },
			"holder too long":      func(st *State) { st.Holder = strings.Repeat("h", record.MaxHolderBytes+1) },
			"address too long":     func(st *State) { st.Address = strings.Repeat("a", record.MaxAddressBytes+1) },
			"address is not UTF-8": func(st *State) { st.Address = "\xff" },
			"no lease":             func(st *State) { st.Lease = 0 },
			"lease too long":       func(st *State) { st.Lease = record.MaxLease + 1 },
			"lease without holder": func(st *State) { st.Holder = "" },
		} {
			next := one.successor()
			change(&next)
			if err := s.CompareAndSwap(ctx, one, next); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("%s: %v, want ErrInvalidArgument", name, err)
			}
		}
		if got := load(t, s); got != one {
			t.Errorf("the record was changed to %+v", got)
		}
	})

	t.Run("oracles are independent", func(t *testing.T) {
		a, b := open(t, "independent"), open(t, "independent.")
		one, other := first(), first()
		swap(t, a, State{}, one)
		if got := load(t, b); got != (State{}) {
			t.Errorf("the other oracle's record is %+v", got)
		}
		swap(t, b, State{}, other)
		if got := load(t, a); got != one {
			t.Errorf("changed to %+v", got)
		}
	})

	t.Run("contexts end", func(t *testing.T) {
		s := open(t, "contexts")
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := s.Load(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Load: %v", err)
		}
		if err := s.CompareAndSwap(ended, State{}, first()); !errors.Is(err, context.Canceled) {
			t.Errorf("CompareAndSwap: %v", err)
		}
	})

	t.Run("concurrent swaps", func(t *testing.T) {
		const servers, each = 4, 5
		var wg sync.WaitGroup
		for i := range servers {
			s := open(t, "concurrent")
			wg.Go(func() {
				for done := 0; done < each; {
					old, err := s.Load(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					next := old.successor()
					next.Holder, next.Lease = fmt.Sprintf("holder-%d", i), time.Second
					next.HighWater++
					switch err := s.CompareAndSwap(ctx, old, next); {
					case err == nil:
						done++
					case !errors.Is(err, ErrFenced):
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if got := load(t, open(t, "concurrent")); got.Version != servers*each || got.HighWater != servers*each {
			t.Errorf("after %d swaps the record is %+v", servers*each, got)
		}
	})
}

// conformanceOfNames runs what every store has to fulfil whose oracles have names.
func conformanceOfNames(t *testing.T, open func(t *testing.T, name string) Store) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	t.Run("bad names", func(t *testing.T) {
		for _, name := range []string{"", strings.Repeat("x", record.MaxNameBytes+1), "\xff"} {
			s := open(t, name)
			if _, err := s.Load(ctx); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("Load of %.10q: %v", name, err)
			}
			if err := s.CompareAndSwap(ctx, State{}, first()); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("CompareAndSwap of %.10q: %v", name, err)
			}
		}
	})
}

func TestStoreMemory(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	stores := map[string]Store{}
	open := func(_ *testing.T, name string) Store {
		mu.Lock()
		defer mu.Unlock()
		if stores[name] == nil {
			stores[name] = NewMemoryStore()
		}
		return stores[name]
	}
	conformance(t, open)
	conformanceOfStart(t, open)
}
