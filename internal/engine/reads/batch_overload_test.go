package reads

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// overloaded asks to slow down for a time, and tells of each attempt, as Google's client does
// through the interceptor of store.Endpoint.
type overloaded struct {
	store.Backend
	mu    sync.Mutex
	until time.Time
	sent  int
}

func (s *overloaded) serve(ctx context.Context) error {
	store.AttemptsOf(ctx).Sent()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	s.sent++
	busy := time.Now().Before(s.until)
	s.mu.Unlock()
	time.Sleep(time.Millisecond)
	if busy {
		return status.Error(codes.ResourceExhausted, "slow down")
	}
	return nil
}

func (s *overloaded) ReadRow(ctx context.Context, _, _ string, _ store.Query) (layout.Row, error) {
	return layout.Row{}, s.serve(ctx)
}

func (s *overloaded) ReadRows(ctx context.Context, _ string, _ store.Rows, _ store.Query, _ int, _ func(string), _ func(layout.Row) bool) error {
	return s.serve(ctx)
}

func (s *overloaded) SampleKeys(context.Context, string) ([]string, error) { return nil, nil }

// A batch that is repeated because Bigtable asks for less stays a batch: its rows say nothing about
// that, and one request for each of them is what Bigtable has asked not to send.
func TestOverloadScattersNoBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &overloaded{}
		s := store.New(t.Context(), b, &telemetry.Counters{})
		defer s.Stop()
		s.Trace = telemetry.NewSpans(nil)
		r := New(s, nil, nil, nil, store.Settings{})
		q := rowQuery{table: "t", asks: pending, window: 1}
		b.until = time.Now().Add(500 * time.Millisecond)
		const reads = 300
		var all sync.WaitGroup
		for i := range reads {
			all.Go(func() {
				if _, err := r.batch.read(t.Context(), q, fmt.Sprintf("r%03d", i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if b.sent > 30 {
			t.Errorf("%d requests for %d reads that would be 3 batches", b.sent, reads)
		}
		t.Logf("%d requests for %d reads", b.sent, reads)
	})
}
