package tso

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// scriptedKeeper keeps sessions as a test wants: fault happens to every request until
// it is changed.
type scriptedKeeper struct {
	clock
	lease time.Duration

	mu     sync.Mutex
	fault  fault
	err    error // what requests fail with, instead of fault
	opened int
	calls  map[string]int
	ended  map[string]bool
}

func newScriptedKeeper(c clock) *scriptedKeeper {
	return &scriptedKeeper{clock: c, lease: 5 * time.Second, calls: map[string]int{}, ended: map[string]bool{}}
}

func (k *scriptedKeeper) set(f fault, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault, k.err = f, err
}

func (k *scriptedKeeper) finish(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended[id] = true
}

func (k *scriptedKeeper) count(op string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls[op]
}

func (k *scriptedKeeper) do(ctx context.Context, op string) error {
	k.mu.Lock()
	k.calls[op]++
	f, err := k.fault, k.err
	k.mu.Unlock()
	switch {
	case err != nil:
		return err
	case f == hangs:
		<-ctx.Done()
		return ctx.Err()
	case f == refused:
		return errStore
	case f == answerLate:
		return sleep(ctx, lateBy)
	}
	return nil
}

func (k *scriptedKeeper) open(ctx context.Context) (grant, error) {
	since := k.moment()
	err := k.do(ctx, "open")
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened++
	return grant{id: fmt.Sprint("session-", k.opened), lease: k.lease, since: since}, err
}

func (k *scriptedKeeper) keepAlive(ctx context.Context, id string) (grant, error) {
	since := k.moment()
	err := k.do(ctx, "keepAlive")
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended[id] {
		err = errSessionEnded
	}
	return grant{id: id, lease: k.lease, since: since}, err
}

func (k *scriptedKeeper) end(ctx context.Context, id string) error {
	k.finish(id)
	return k.do(ctx, "end")
}

// startSession begins a session that a scripted keeper keeps; it ends with the test.
func startSession(t *testing.T) (*session, *scriptedKeeper, *shiftedClock) {
	t.Helper()
	c := &shiftedClock{}
	own := c.clock()
	k := newScriptedKeeper(own)
	var set sessionSet
	s, err := set.start(k, own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.close)
	synctest.Wait()
	return s, k, c
}

func TestSessionIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, k, _ := startSession(t)
		for range 600 {
			if s.ID() != "session-1" {
				t.Fatalf("the session is %q", s.ID())
			}
			time.Sleep(100 * time.Millisecond)
		}
		// Every third of the lease, or up to a tenth more often.
		if n := k.count("keepAlive"); n < 36 || n > 40 {
			t.Errorf("%d renewals in a minute", n)
		}
	})
}

// An owner whose renewals do not get through stops believing in its session before
// anybody else can, counted from before the last renewal that did.
func TestSessionIsCutOff(t *testing.T) {
	for name, f := range map[string]fault{"no answers": hangs, "errors": refused} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, k, _ := startSession(t)
				time.Sleep(10 * time.Second)
				k.set(answerLate, nil)
				time.Sleep(5 * time.Second)
				before := s.held.Load()
				for s.held.Load() == before {
					time.Sleep(time.Millisecond)
				}
				if late := k.mono() - s.held.Load().since.mono; late < lateBy {
					t.Fatalf("the lease is counted from %v before an answer that took %v", late, lateBy)
				}
				k.set(f, nil)
				last := s.held.Load().since.mono
				for k.mono() < last+k.lease-k.lease/50 {
					if s.ID() != "session-1" {
						t.Fatalf("the session is %q %v after its last renewal", s.ID(), k.mono()-last)
					}
					time.Sleep(time.Millisecond)
				}
				if id := s.ID(); id != "" {
					t.Fatalf("the session is %q %v after its last renewal", id, k.mono()-last)
				}
				time.Sleep(time.Minute)
				if s.ID() != "" {
					t.Error("the session came back without an answer")
				}
				if n := k.count("keepAlive"); f == refused && n > 200 {
					t.Errorf("%d attempts to renew", n)
				}
				// The keeper has lost its memory of leases, not of sessions.
				k.set(fine, nil)
				time.Sleep(10 * time.Second)
				if s.ID() != "session-1" {
					t.Errorf("the session is %q", s.ID())
				}
			})
		})
	}
}

// Two renewals in a row without an answer do not cost an owner its session.
func TestSessionSurvivesTwoLostRenewals(t *testing.T) {
	for name, f := range map[string]fault{"no answers": hangs, "errors": refused} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, k, _ := startSession(t)
				for range 50 {
					renewed := s.held.Load()
					lost := k.count("keepAlive") + 2
					k.set(f, nil)
					for s.held.Load() == renewed {
						if k.count("keepAlive") == lost {
							k.set(fine, nil) // after both have started
						}
						if s.ID() != "session-1" {
							t.Fatalf("the session is %q %v after its last renewal", s.ID(), k.mono()-renewed.since.mono)
						}
						time.Sleep(time.Millisecond)
					}
				}
			})
		})
	}
}

// However long nobody has answered, the pauses stay short for a short lease.
func TestSessionWithAShortLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, k, _ := startSession(t)
		k.mu.Lock()
		k.lease = 600 * time.Millisecond
		k.mu.Unlock()
		time.Sleep(2 * time.Second)
		for range 20 {
			k.set(refused, nil)
			time.Sleep(10 * time.Second)
			k.set(fine, nil)
			time.Sleep(k.lease/6 + time.Millisecond)
			if s.ID() == "" {
				t.Fatal("not renewed within a sixth of the lease")
			}
		}
	})
}

func TestSessionIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, k, _ := startSession(t)
		for i := 1; i <= 3; i++ {
			if want := fmt.Sprint("session-", i); s.ID() != want {
				t.Fatalf("the session is %q, want %q", s.ID(), want)
			}
			k.finish(s.ID())
			time.Sleep(2 * time.Second)
		}
		if k.count("open") != 4 {
			t.Errorf("%d sessions were opened, want 4", k.count("open"))
		}
	})
}

// A process that was stopped, or whose machine was suspended, knows when it continues, before its
// goroutines have run.
func TestSessionOfAProcessThatWasStopped(t *testing.T) {
	for name, one := range map[string]func(*shiftedClock) *atomic.Int64{
		"monotonic": func(c *shiftedClock) *atomic.Int64 { return &c.mono },
		"boot time": func(c *shiftedClock) *atomic.Int64 { return &c.boot },
		"wall":      func(c *shiftedClock) *atomic.Int64 { return &c.wall },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, _, c := startSession(t)
				one(c).Add(int64(4 * time.Second))
				if s.ID() == "" {
					t.Error("the session is gone before its lease")
				}
				one(c).Add(int64(time.Second))
				if s.ID() != "" {
					t.Error("the session outlives its lease")
				}
				time.Sleep(2 * time.Second)
				if s.ID() != "session-1" {
					t.Errorf("the session is %q", s.ID())
				}
			})
		})
	}
}

func TestSessionIsClosed(t *testing.T) {
	for name, f := range map[string]fault{"answers": fine, "no answers": hangs, "errors": refused} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, k, _ := startSession(t)
				k.set(f, nil)
				started := time.Now()
				if err := s.Close(t.Context()); (err == nil) != (f == fine) {
					t.Errorf("Close: %v", err)
				}
				if took := time.Since(started); took > endTimeout {
					t.Errorf("Close took %v", took)
				}
				if s.ID() != "" || k.count("end") != 1 {
					t.Errorf("the session is %q, its keeper was told %d times", s.ID(), k.count("end"))
				}
				<-s.done
				if err := s.Close(t.Context()); err != nil || k.count("end") != 1 {
					t.Errorf("closing it again: %v", err)
				}
			})
		})
	}
}

// What cannot be opened is tried again, rarely where it will not help.
func TestSessionCannotBeOpened(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		most int // attempts in a minute
	}{
		"nobody answers": {ErrUnavailable, 200},
		"not supported":  {fmt.Errorf("tso: %w", ErrUnsupported), 3},
		"limit":          {fmt.Errorf("tso: %w", ErrLimit), 200},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, k, _ := startSession(t)
				k.finish(s.ID())
				k.set(fine, c.err)
				before := k.count("open")
				time.Sleep(time.Minute)
				if n := k.count("open") - before; n < 1 || n > c.most {
					t.Errorf("%d attempts in a minute", n)
				}
				if s.ID() != "" {
					t.Errorf("the session is %q", s.ID())
				}
				k.set(fine, nil)
				time.Sleep(unsupportedPause)
				if s.ID() == "" {
					t.Error("no session was opened")
				}
			})
		})
	}
}

func TestSessionSetLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		own := (&shiftedClock{}).clock()
		k := newScriptedKeeper(own)
		var set sessionSet
		var open []*session
		for range maxOpenSessions {
			s, err := set.start(k, own)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, s)
		}
		if _, err := set.start(k, own); !errors.Is(err, ErrLimit) {
			t.Errorf("one too many: %v", err)
		}
		synctest.Wait()
		if err := open[0].Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := set.start(k, own); err != nil {
			t.Errorf("instead of a closed one: %v", err)
		}
		synctest.Wait()
		k.set(hangs, nil)
		started := time.Now()
		set.close()
		if took := time.Since(started); took > endAllTimeout {
			t.Errorf("closing took %v", took)
		}
		if n := k.count("end"); n != maxOpenSessions+1 {
			t.Errorf("%d of %d ends were told", n, maxOpenSessions+1)
		}
		if _, err := set.start(k, own); !errors.Is(err, ErrClosed) {
			t.Errorf("after it was closed: %v", err)
		}
	})
}
