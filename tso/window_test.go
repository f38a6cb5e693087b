package tso

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

const second = Timestamp(1000 * TicksPerMillisecond)

// leading returns an allocator that leads from floor with a window of 3 s and a lease
// of a day.
func leading(c *manualClock, floor Timestamp) *allocator {
	a := newAllocator(c.clock(), 3*time.Second)
	a.lead(floor, max(floor, At(c.wall))+3*second, c.lease(24*time.Hour))
	return a
}

func mustTryTake(t *testing.T, a *allocator, n Timestamp) Timestamp {
	t.Helper()
	first, again, err := a.tryTake(n)
	if err != nil || again != nil {
		t.Fatalf("taking %d: must wait: %v, error: %v", n, again != nil, err)
	}
	return first
}

// drain empties the request for more and reports whether there was one.
func drain(a *allocator) bool {
	select {
	case <-a.wanted:
		return true
	default:
		return false
	}
}

func TestWindowFollowsTheClock(t *testing.T) {
	t.Parallel()
	c := newManualClock()
	a := leading(c, 0)
	start := At(noon)
	if got := mustTryTake(t, a, 10); got != start {
		t.Errorf("the first block begins at %d, want the clock's %d", got, start)
	}
	if got := mustTryTake(t, a, 1); got != start+10 {
		t.Errorf("while the clock does not move: %d, want %d", got, start+10)
	}
	c.advance(time.Second)
	if got := mustTryTake(t, a, 1); got != start+second {
		t.Errorf("a second later: %d, want %d", got, start+second)
	}
}

func TestWindowStartsAboveTheMark(t *testing.T) {
	t.Parallel()
	c := newManualClock()
	mark := At(noon) + 2*second // a predecessor had reserved ahead
	if got := mustTryTake(t, leading(c, mark), 1); got != mark+1 {
		t.Errorf("got %d, want %d", got, mark+1)
	}
}

func TestWindowIsWantedExtendedWhenHalfIsUsed(t *testing.T) {
	t.Parallel()
	c := newManualClock()
	a := leading(c, 0)
	mustTryTake(t, a, second)
	if drain(a) || a.low() {
		t.Error("more was wanted with two thirds left")
	}
	mustTryTake(t, a, second)
	if !drain(a) || !a.low() {
		t.Error("no more was wanted with a third left")
	}
	if target, want := a.target(), At(noon)+2*second-1+3*second; target != want {
		t.Errorf("the window is to be extended to %d, want %d", target, want)
	}
}

// Nothing beyond the window is handed out, whatever the clock shows.
func TestWindowEnds(t *testing.T) {
	t.Parallel()
	c := newManualClock()
	a := leading(c, 0)
	mustTryTake(t, a, 3*second+1) // all of it: the window includes its last timestamp
	_, again, err := a.tryTake(1)
	if again == nil || err != nil {
		t.Fatalf("beyond the window: must wait: %v, error: %v", again != nil, err)
	}
	a.fail(errStore)
	<-again
	if _, again, err := a.tryTake(1); again != nil || !errors.Is(err, ErrUnavailable) {
		t.Fatalf("after the store failed: must wait: %v, error: %v", again != nil, err)
	}
	a.extend(a.target(), c.lease(time.Hour))
	if got, want := mustTryTake(t, a, 1), At(noon)+3*second+1; got != want {
		t.Errorf("after the extension: %d, want %d", got, want)
	}
}

// The lease ends by each clock, also when the two others stand still.
func TestWindowRefusesAfterTheLease(t *testing.T) {
	t.Parallel()
	for name, passed := range map[string]func(d time.Duration) moment{
		"monotonic":         func(d time.Duration) moment { return moment{d, 0, noon} },
		"boot time":         func(d time.Duration) moment { return moment{0, d, noon} },
		"wall":              func(d time.Duration) moment { return moment{0, 0, noon.Add(d)} },
		"wall was set back": func(d time.Duration) moment { return moment{d, d, noon.Add(-time.Hour)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newManualClock()
			a := newAllocator(c.clock(), 3*time.Second)
			if _, _, err := a.tryTake(1); !errors.Is(err, errNotLeading) {
				t.Errorf("before leading: %v", err)
			}
			a.lead(0, At(noon)+3*second, c.lease(2*time.Second))
			c.move(passed(2*time.Second - 1))
			mustTryTake(t, a, 1)
			c.move(passed(1))
			if _, again, err := a.tryTake(1); !errors.Is(err, ErrUnavailable) && (name != "wall" || again == nil) {
				t.Errorf("at the end of the lease: must wait: %v, error: %v", again != nil, err)
			}
			if !drain(a) || !a.low() || a.report().holds {
				t.Error("the lease is not to be renewed")
			}
			a.extend(a.target(), c.lease(time.Second))
			mustTryTake(t, a, 1)
			a.revoke()
			if _, _, err := a.tryTake(1); !errors.Is(err, errNotLeading) {
				t.Errorf("after revocation: %v", err)
			}
		})
	}
}

func TestWindowClockJumpsForward(t *testing.T) {
	t.Parallel()
	c := newManualClock()
	a := leading(c, 0)
	mustTryTake(t, a, 1)
	c.jump(time.Hour)
	_, again, err := a.tryTake(1)
	if again == nil || err != nil {
		t.Fatalf("an hour beyond the window: must wait: %v, error: %v", again != nil, err)
	}
	if !drain(a) || !a.low() {
		t.Fatal("no extension is wanted")
	}
	a.extend(a.target(), c.lease(time.Hour))
	<-again
	if got, want := mustTryTake(t, a, 1), At(noon.Add(time.Hour)); got != want {
		t.Errorf("after the jump: %d, want %d", got, want)
	}
}

func TestWindowClockGoesBack(t *testing.T) {
	t.Parallel()
	c := newManualClock()
	a := leading(c, 0)
	start := mustTryTake(t, a, 1)

	// By less than the window: waited for.
	c.jump(-time.Second)
	c.advance(500 * time.Millisecond)
	if got := mustTryTake(t, a, 1); got != start+1 {
		t.Errorf("half a second behind: %d, want %d", got, start+1)
	}
	// By far more: on at half the speed of time.
	c.jump(-time.Hour)
	if got := mustTryTake(t, a, 1); got != start+2 || !a.isBehind() {
		t.Errorf("an hour behind: %d, want %d; behind: %v", got, start+2, a.isBehind())
	}
	c.advance(2 * time.Second)
	if got, want := mustTryTake(t, a, 1), start+1+second; got != want {
		t.Errorf("two seconds later: %d, want %d", got, want)
	}
	// Time passes without a request; the extension has to keep pace.
	c.advance(40 * time.Minute)
	a.extend(a.target(), c.lease(time.Hour))
	if got, want := mustTryTake(t, a, 1), start+1+(1+20*60)*second; got != want {
		t.Errorf("40 minutes later: %d, want %d", got, want)
	}
	// The clock catches up: an hour takes two.
	c.advance(81 * time.Minute)
	a.extend(a.target(), c.lease(time.Hour))
	if got, want := mustTryTake(t, a, 1), At(c.wall); got != want || a.isBehind() {
		t.Errorf("after two hours: %d, want the clock's %d; behind: %v", got, want, a.isBehind())
	}
}

func TestWindowLastTimestamp(t *testing.T) {
	t.Parallel()
	c := newManualClock()
	a := newAllocator(c.clock(), 3*time.Second)
	a.lead(MaxTimestamp-2, MaxTimestamp, c.lease(time.Hour))
	if got := mustTryTake(t, a, 2); got != MaxTimestamp-1 {
		t.Errorf("got %d, want %d", got, MaxTimestamp-1)
	}
	if got := a.target(); got != MaxTimestamp {
		t.Errorf("target %d is beyond %d", got, MaxTimestamp)
	}
	if _, _, err := a.tryTake(1); !errors.Is(err, ErrExhausted) {
		t.Errorf("beyond the last timestamp: %v", err)
	}
}

func TestWindowTakeWaitsAndGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newManualClock()
		a := leading(c, 0)
		mustTryTake(t, a, 3*second+1)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without an extension: %v", err)
		}

		got := make(chan Timestamp, 1)
		go func() {
			ts, err := a.take(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			got <- ts
		}()
		synctest.Wait() // it waits now
		a.extend(a.target(), c.lease(time.Hour))
		if ts, want := <-got, At(noon)+3*second+1; ts != want {
			t.Errorf("got %d, want %d", ts, want)
		}
	})
}

// Whatever happens to the clocks, the window and the lease: timestamps increase, are
// inside what the store holds, and are handed out only during the lease.
func TestWindowProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newManualClock()
		a := newAllocator(c.clock(), time.Duration(rapid.Int64Range(1, 5000).Draw(t, "window ms"))*time.Millisecond)
		var last, mark Timestamp
		var held lease
		lead := false
		t.Repeat(map[string]func(*rapid.T){
			"advance": func(t *rapid.T) {
				c.advance(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "d")))
			},
			"jump": func(t *rapid.T) {
				c.jump(time.Duration(rapid.Int64Range(int64(-2*time.Hour), int64(2*time.Hour)).Draw(t, "d")))
			},
			"suspend": func(t *rapid.T) {
				d := time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "d"))
				c.move(moment{0, d, noon.Add(d)})
			},
			"lead": func(t *rapid.T) {
				floor := mark
				mark = max(floor, At(c.wall)) + a.window
				held = c.lease(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "lease")))
				a.lead(floor, mark, held)
				lead = true
			},
			"extend": func(t *rapid.T) {
				if !lead {
					return
				}
				mark = max(mark, a.target())
				held = c.lease(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "lease")))
				a.extend(mark, held)
			},
			"fail":   func(*rapid.T) { a.fail(errStore) },
			"revoke": func(*rapid.T) { a.revoke(); lead = false },
			"take": func(t *rapid.T) {
				n := Timestamp(rapid.Int64Range(1, MaxBatch).Draw(t, "n"))
				first, again, err := a.tryTake(n)
				if err != nil || again != nil {
					return
				}
				if first <= last {
					t.Fatalf("%d after %d", first, last)
				}
				if last = first + n - 1; last > mark {
					t.Fatalf("%d is beyond the mark %d", last, mark)
				}
				now := c.now()
				passed := max(now.mono-held.from.mono, now.boot-held.from.boot, now.wall.Sub(held.from.wall))
				if !lead || passed >= held.length {
					t.Fatalf("handed out without a lease (leading: %v, %v past its end)", lead, passed-held.length)
				}
			},
		})
	})
}
