package percolator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// burst is how Updates went that each add to a row of their own and to one of a few shared ones.
type burst struct {
	took           time.Duration
	attempts, most int64 // in all, and of one Update
}

// runBurst makes so many Updates from so many goroutines, and checks the sums.
func runBurst(t testing.TB, ctx context.Context, c *percolator.Client, updates, goroutines, shared int) (b burst) {
	t.Helper()
	var attempts, most, next atomic.Int64
	var wg sync.WaitGroup
	add := func(ctx context.Context, tx *percolator.Txn, row string) error {
		v, err := tx.Get(ctx, fixture.Cell(row, "n"))
		if err != nil && !errors.Is(err, percolator.ErrNotFound) {
			return err
		}
		n := uint64(1)
		if v != nil {
			n += binary.BigEndian.Uint64(v)
		}
		return tx.Set(fixture.Cell(row, "n"), binary.BigEndian.AppendUint64(nil, n))
	}
	begun := time.Now()
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(updates); i = next.Add(1) {
				own := int64(0)
				_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
					own++
					return errors.Join(add(ctx, tx, fmt.Sprint("own-", i)), add(ctx, tx, fmt.Sprint("shared-", i%int64(shared))))
				})
				if err != nil {
					t.Error(err)
				}
				attempts.Add(own)
				for m := most.Load(); own > m && !most.CompareAndSwap(m, own); m = most.Load() {
				}
			}
		})
	}
	wg.Wait()
	b = burst{time.Since(begun), attempts.Load(), most.Load()}
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	sum := uint64(0)
	for i := range shared {
		v, err := s.Get(ctx, fixture.Cell(fmt.Sprint("shared-", i), "n"))
		fixture.Must(t, err)
		sum += binary.BigEndian.Uint64(v)
	}
	if sum != uint64(updates) {
		t.Errorf("the shared rows say %d, of %d Updates", sum, updates)
	}
	return b
}

// A burst of Updates that contend for a few rows costs few attempts, however many begin at once.
func TestBurstOfUpdates(t *testing.T) {
	t.Parallel()
	for shared, updates := range map[int]int{100: 1000, 1: 300} {
		t.Run(fmt.Sprint(shared, " shared rows"), func(t *testing.T) {
			t.Parallel()
			env, ctx := fixture.NewEnv(t), fixture.Context(t)
			b := runBurst(t, ctx, env.Client, updates, updates, shared)
			t.Logf("%+v", b)
			if b.most > 20 || b.attempts > int64(3*updates) {
				t.Errorf("%d attempts, %d of one Update", b.attempts, b.most)
			}
			s := env.Client.Stats().Contention
			if len(s.Cells) == 0 || s.Cells[0].Conflicts == 0 || s.Attempts != 0 || s.Waiting != 0 || s.Limit < 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// An Update within the function of another waits for no attempt to end: as many as may run could all
// have one.
func TestNestedUpdatesPassTheQueue(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	limit := env.Client.Stats().Contention.Limit
	var group, all sync.WaitGroup
	all.Add(limit)
	for i := range limit {
		group.Go(func() {
			_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				all.Done()
				all.Wait()
				_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
					return tx.Set(fixture.Cell(fmt.Sprint("inner-", i), "c"), nil)
				})
				return errors.Join(err, tx.Set(fixture.Cell(fmt.Sprint("outer-", i), "c"), nil))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if s := env.Client.Stats().Contention; s.Limit != limit || s.Attempts+s.Waiting != 0 {
		t.Errorf("%+v, at first %d at once", s, limit)
	}
}

// BenchmarkBurst makes 10,000 Updates, each of a row of its own and one of 500 shared ones, all at
// once and from 64 goroutines: how many times as long that takes, and how many attempts.
func BenchmarkBurst(b *testing.B) {
	for b.Loop() {
		for _, shared := range []int{500, 10} {
			few := runBurst(b, b.Context(), benchClientOf(b, percolator.Config{}, fixture.Schema()), 10000, 64, shared)
			all := runBurst(b, b.Context(), benchClientOf(b, percolator.Config{}, fixture.Schema()), 10000, 10000, shared)
			b.Logf("%d shared rows: 64 goroutines %+v, 10,000 %+v", shared, few, all)
			b.ReportMetric(all.took.Seconds()/few.took.Seconds(), fmt.Sprintf("x_time_%d", shared))
			b.ReportMetric(float64(all.most), fmt.Sprintf("attempts_at_most_%d", shared))
		}
		b.ReportMetric(0, "ns/op")
	}
}
