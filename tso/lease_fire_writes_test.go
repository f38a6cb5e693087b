package tso

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// writesIn lets a leader with the default window and lease hand out n timestamps every
// 100 ms for a minute, in blocks of at most MaxBatch, and returns the requests to the
// store in that minute.
func writesIn(t *testing.T, n int, jump func(tenth int) time.Duration) (writes, reads int64) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore(NewMemoryStore())
		a := startServer(t, store, ServerConfig{})
		synctest.Wait()
		writes, reads = store.swaps.Load(), store.loads.Load()
		var last Timestamp
		for tenth := range 600 {
			a.clock.wall.Store(int64(jump(tenth)))
			for left := n; left > 0; left -= MaxBatch {
				took := min(left, MaxBatch)
				first := a.mustTake(t, took)
				if first <= last {
					t.Fatalf("%d after %d", first, last)
				}
				last = first + Timestamp(took) - 1
			}
			if mark := stored(t, store.Store).HighWater; last > mark {
				t.Fatalf("served %d, stored only %d", last, mark)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		writes, reads = store.swaps.Load()-writes, store.loads.Load()-reads
	})
	return writes, reads
}

// The lease is renewed once a second, and with the same write the window is extended.
// Whatever the rate, up to what timestamps can follow the clock at, there is no other
// request to the store.
func TestFireOneWriteForEveryRenewal(t *testing.T) {
	t.Parallel()
	steady := func(int) time.Duration { return 0 }
	for _, n := range []int{0, 1, 1000, 100_000, TicksPerMillisecond * 100} {
		if writes, reads := writesIn(t, n, steady); writes != 60 || reads != 0 {
			t.Errorf("with %d timestamps in 100 ms: %d writes and %d readings in a minute, want 60 and 0", n, writes, reads)
		}
	}
}

// At four times that rate timestamps run ahead of the clock, and a write is needed
// for each half of a window that they run ahead by, at most.
func TestFireWritesWhenAheadOfTheClock(t *testing.T) {
	t.Parallel()
	const n = 4 * TicksPerMillisecond * 100
	half := int64(3 * second / 2)
	writes, reads := writesIn(t, n, func(int) time.Duration { return 0 })
	if most := 60 + 600*n/half; writes > most || reads != 0 {
		t.Errorf("%d writes and %d readings in a minute, want at most %d and 0", writes, reads, most)
	}
}

// A clock that is set an hour forward costs one write more; one that is set an hour
// back costs none.
func TestFireWritesWhenTheClockJumps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		by   time.Duration
		more int64
	}{{time.Hour, 1}, {-time.Hour, 0}} {
		t.Run(fmt.Sprint(c.by), func(t *testing.T) {
			writes, reads := writesIn(t, 1000, func(tenth int) time.Duration {
				if tenth < 255 { // between two renewals
					return 0
				}
				return c.by
			})
			if writes < 60 || writes > 60+c.more || reads != 0 {
				t.Errorf("%d writes and %d readings in a minute, want at most %d and 0", writes, reads, 60+c.more)
			}
		})
	}
}

// Clocks that jump by an hour, in either direction, at any point of the window and of
// the lease, of leaders and of servers that are about to lead.
func TestFireClockJumpsAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		for point := time.Duration(0); point < 1200*time.Millisecond; point += 75 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				record := NewMemoryStore()
				stores := []*faultyStore{newFaultyStore(record), newFaultyStore(record)}
				a := startServer(t, stores[0], ServerConfig{})
				synctest.Wait()
				b := startServer(t, stores[1], ServerConfig{})
				time.Sleep(2*time.Second + point)

				last := a.mustTake(t, 100) + 99
				take := func(s *runner, what string) {
					ts, err := s.Next(t.Context())
					if err != nil || ts <= last {
						t.Fatalf("jump by %v at %v, %s: %d after %d, %v", by, point, what, ts, last, err)
					}
					if mark := stored(t, record).HighWater; ts > mark {
						t.Fatalf("jump by %v at %v, %s: served %d, stored only %d", by, point, what, ts, mark)
					}
					last = ts
				}
				a.clock.wall.Store(int64(by))
				take(a, "the leader at once")
				time.Sleep(point)
				take(a, "the leader later")
				a.clock.wall.Store(0)
				take(a, "the leader set right")
				b.clock.wall.Store(int64(by))
				stores[0].freeze()
				take(b, "the successor")
				b.clock.wall.Store(int64(-by))
				take(b, "the successor, set the other way")
				a.mustRefuse(t, ErrUnavailable)
				stores[0].heal()
				stores[1].freeze()
				take(a, "the first one again")
				stores[1].heal()
			})
		}
	}
}
