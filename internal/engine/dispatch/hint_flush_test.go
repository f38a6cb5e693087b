package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/tso/coordination"
)

// slowHints takes a second for each request.
type slowHints struct{ coordination.Hints }

func (slowHints) LeaveHints(ctx context.Context, _ []coordination.Hint) ([]uint64, error) {
	select {
	case <-time.After(time.Second):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A flush waits for hints that were left before it, however many follow, and for none that were
// dropped.
func TestFlushOfHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newHinter := func() *hinter {
			return &hinter{service: slowHints{}, count: &telemetry.Counters{}, resting: map[uint64]time.Time{}, moved: make(chan struct{})}
		}
		flushed := func(what string, h *hinter, most time.Duration) {
			began := time.Now()
			h.Flush(t.Context())
			if took := time.Since(began); took > most {
				t.Errorf("%s: it took %v", what, took)
			}
		}
		h, ctx := newHinter(), t.Context()
		flushed("nothing", h, 0)
		writing, stop := context.WithCancel(ctx)
		go func() {
			for writing.Err() == nil {
				h.leave(ctx, coordination.Hint{Topic: 1, Data: "busy"})
				time.Sleep(10 * time.Millisecond)
			}
		}()
		time.Sleep(5500 * time.Millisecond)
		flushed("a writer that goes on", h, 2*time.Second)
		stop()
		time.Sleep(time.Minute)
		for range 100 {
			h, hint := newHinter(), coordination.Hint{Topic: 1, Data: "hint"}
			ended, end := context.WithCancel(ctx)
			h.leave(ended, hint)
			end()
			h.Close()
			wait, cancel := context.WithTimeout(ctx, time.Hour)
			began := time.Now()
			h.Flush(wait)
			cancel()
			if time.Since(began) > 0 {
				t.Fatal("it waits for hints that Close has dropped")
			}
		}
	})
}

// flakyHints answers late, and sometimes with an error or a refusal.
type flakyHints struct {
	coordination.Hints
	mu  sync.Mutex
	rnd *rand.Rand
}

func (f *flakyHints) LeaveHints(ctx context.Context, hints []coordination.Hint) ([]uint64, error) {
	f.mu.Lock()
	wait, kind := time.Duration(f.rnd.IntN(3000))*time.Millisecond, f.rnd.IntN(4)
	f.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch kind {
	case 0:
		return nil, errors.New("no answer")
	case 1:
		return []uint64{hints[0].Topic}, nil
	}
	return nil, nil
}

// Whatever the service does, a flush returns, and then all that was left before it is sent or
// counted as lost.
func TestFlushesBesideWritersAndFailures(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			h := &hinter{
				service: &flakyHints{rnd: rand.New(rand.NewPCG(seed, 2))}, count: &telemetry.Counters{},
				resting: map[uint64]time.Time{}, moved: make(chan struct{}),
			}
			ctx, end := context.WithCancel(t.Context())
			var writers, asked sync.WaitGroup
			var left atomic.Int64
			for w := range 4 {
				writers.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, uint64(10+w)))
					for range 200 {
						h.leave(ctx, coordination.Hint{Topic: uint64(rnd.IntN(5)), Data: strings.Repeat("x", rnd.IntN(1000))})
						left.Add(1)
						time.Sleep(time.Duration(rnd.IntN(50)) * time.Millisecond)
					}
				})
			}
			for range 8 {
				asked.Go(func() {
					for range 20 {
						before := left.Load()
						wait, cancel := context.WithTimeout(ctx, time.Hour)
						h.Flush(wait)
						if dealt := h.count.HintsLeft.Load() + h.count.HintsLost.Load(); wait.Err() != nil || dealt < before {
							t.Errorf("seed %d: %d of %d hints are dealt with, %v", seed, dealt, before, wait.Err())
						}
						cancel()
						time.Sleep(200 * time.Millisecond)
					}
				})
			}
			writers.Wait()
			asked.Wait()
			end()
			h.Close()
		})
	}
}
