package dispatch

import (
	"context"
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
