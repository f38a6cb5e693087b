package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// repeatsBulks asks to slow down for a time, and tells of attempts as Google's client does.
type repeatsBulks struct {
	Backend
	mu       sync.Mutex
	until    time.Time
	sent     int
	requests map[*Attempts]bool
}

func (b *repeatsBulks) MutateRows(ctx context.Context, _ string, _ []string, _ []*Mutation) ([]error, error) {
	a := AttemptsOf(ctx)
	a.Sent()
	b.mu.Lock()
	b.sent++
	b.requests[a] = true
	busy := time.Now().Before(b.until)
	b.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	if busy {
		return nil, status.Error(codes.ResourceExhausted, "slow down")
	}
	return nil, nil
}

func (b *repeatsBulks) SampleKeys(context.Context, string) ([]string, error) { return nil, nil }

// What arrives while Bigtable asks for less gathers in few requests: those that wait for admission
// keep their slots.
func TestOverloadedBulksGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := func(overload time.Duration) (requests int) {
			b := &repeatsBulks{until: time.Now().Add(overload), requests: map[*Attempts]bool{}}
			s := New(t.Context(), b, &telemetry.Counters{})
			defer s.Stop()
			w := NewBulkWriter(t.Context(), s)
			var all sync.WaitGroup
			for i := range 2000 { // for 10 s
				all.Add(1)
				w.Offer(t.Context()).Add(RowMutation{Table: "t", Row: fmt.Sprint(i), Mut: mutationsOf(2), Deadline: time.Now().Add(30 * time.Second), Done: func(err error) {
					if err != nil {
						t.Error(err)
					}
					all.Done()
				}})
				time.Sleep(5 * time.Millisecond)
			}
			all.Wait()
			t.Logf("overload of %v: %d requests, %d attempts", overload, len(b.requests), b.sent)
			return len(b.requests)
		}
		run(0)
		if n := run(10 * time.Second); n > 50 {
			t.Errorf("%d requests wait for admission with what two slots would carry", n)
		}
	})
}
