package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// fickleBackend applies mutations late, in part, or never, and cuts the table anew all the time.
type fickleBackend struct {
	Backend
	mu      sync.Mutex
	random  *rand.Rand
	applied map[string]bool
}

func (b *fickleBackend) SampleKeys(context.Context, string) (ends []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range 10 {
		if b.random.IntN(2) == 0 {
			ends = append(ends, fmt.Sprint(i))
		}
	}
	return ends, nil
}

func (b *fickleBackend) MutateRows(ctx context.Context, _ string, rows []string, _ []*Mutation) ([]error, error) {
	b.mu.Lock()
	fate, slow := b.random.IntN(12), time.Duration(b.random.IntN(50))*time.Millisecond
	if rows[0][0] == '3' {
		slow = 3 * time.Second // a tablet that is hardly there
	}
	b.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(rows))
	for i, row := range rows {
		if fate == 0 && i%2 == 0 {
			errs[i] = status.Error(codes.FailedPrecondition, "refused")
			continue
		}
		b.applied[row] = true
	}
	if fate == 1 {
		return nil, status.Error(codes.PermissionDenied, "the answer is lost for good")
	}
	return errs, nil
}

// TestBulkWriterLosesNothing: whatever becomes of requests, deadlines, callers and bounds of
// tablets, each mutation has one answer, what is said to be applied is, and nothing stays in the
// queue.
func TestBulkWriterLosesNothing(t *testing.T) {
	t.Parallel()
	for range 10 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d", seed)
			backend := &fickleBackend{random: rand.New(rand.NewPCG(seed, 1)), applied: map[string]bool{}}
			s := New(context.Background(), backend, &telemetry.Counters{})
			w := NewBulkWriter(s.Background, s)
			var callers sync.WaitGroup
			var left atomic.Int64
			for c := range 6 {
				r := rand.New(rand.NewPCG(seed, uint64(c)+2))
				callers.Go(func() {
					for n := range 4 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(4000))*time.Millisecond)
						var muts []RowMutation
						for i := range r.IntN(1500) {
							row := fmt.Sprintf("%d-%d-%d-%d", r.IntN(10), c, n, i)
							mut := NewMutation(1)
							mut.Put(layout.DataFamily, "c", 1, nil)
							answers := new(atomic.Int64)
							left.Add(1)
							muts = append(muts, RowMutation{Table: "t", Row: row, Mut: mut, Deadline: time.Now().Add(time.Duration(1+r.IntN(10)) * time.Second), Done: func(err error) {
								backend.mu.Lock()
								applied := backend.applied[row]
								backend.mu.Unlock()
								if answers.Add(1) != 1 || err == nil && !applied {
									t.Errorf("row %s: answer %d, %v, applied: %v", row, answers.Load(), err, applied)
								}
								left.Add(-1)
							}})
						}
						w.Offer(ctx).Add(muts...)
						cancel()
					}
				})
			}
			callers.Wait()
			if err := w.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			w.mu.Lock()
			if n := left.Load(); n != 0 || len(w.Slots) != 0 || len(w.tablets) != 0 {
				t.Errorf("%d mutations have no answer; %d rows and %d tablets are left", n, len(w.Slots), len(w.tablets))
			}
			w.mu.Unlock()
			s.Stop()
			w.Close()
		})
	}
}

// TestFlushOutlastsCallers: a caller that gives up leaves its rows on their way. Flush returns only
// when none of them can be applied any more.
func TestFlushOutlastsCallers(t *testing.T) {
	t.Parallel()
	for range 10 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d", seed)
			backend := &fickleBackend{random: rand.New(rand.NewPCG(seed, 1)), applied: map[string]bool{}}
			s := New(context.Background(), backend, &telemetry.Counters{})
			w := NewBulkWriter(s.Background, s)
			var callers sync.WaitGroup
			for c := range 8 {
				callers.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					defer cancel()
					var muts []RowMutation
					for i := range 300 {
						mut := NewMutation(1)
						mut.Put(layout.DataFamily, "c", 1, nil)
						muts = append(muts, RowMutation{Table: "t", Row: fmt.Sprintf("%d-%d-%d", i%10, c, i), Mut: mut, Deadline: time.Now().Add(10 * time.Second)})
					}
					_ = w.Do(ctx, muts) // most have to give up
				})
			}
			callers.Wait()
			if err := w.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			backend.mu.Lock()
			flushed := len(backend.applied)
			backend.mu.Unlock()
			time.Sleep(time.Minute)
			backend.mu.Lock()
			if later := len(backend.applied); later != flushed || flushed == 0 {
				t.Errorf("%d rows were applied when Flush returned, %d a minute later", flushed, later)
			}
			backend.mu.Unlock()
			s.Stop()
			w.Close()
		})
	}
}
