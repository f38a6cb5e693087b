package percolator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// burst is how Updates went that each add to a row of their own and to one of a few shared ones.
type burst struct {
	took           time.Duration
	attempts, most int64 // in all, and of one Update
}

// add adds 1 to the number in a row.
func add(ctx context.Context, tx *percolator.Txn, row string) error {
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

// runBurst makes so many Updates from so many goroutines, and checks the sums.
func runBurst(t testing.TB, ctx context.Context, c *percolator.Client, updates, goroutines, shared int) (b burst) {
	t.Helper()
	var attempts, most, next atomic.Int64
	var wg sync.WaitGroup
	started := time.Now()
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(updates); i = next.Add(1) {
				own, key := int64(0), i*7919%10007 // so that neighbours in time are none in the table
				_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
					own++
					return errors.Join(add(ctx, tx, fmt.Sprint("own-", key)), add(ctx, tx, fmt.Sprint("shared-", key%int64(shared))))
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
	b = burst{time.Since(started), attempts.Load(), most.Load()}
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	sum := uint64(0)
	for e, err := range s.Scan(ctx, "t", percolator.Prefix("shared-")) {
		fixture.Must(t, err)
		sum += binary.BigEndian.Uint64(e.Value)
	}
	if sum != uint64(updates) {
		t.Errorf("the shared rows say %d, of %d Updates", sum, updates)
	}
	return b
}

// A burst of Updates that contend for a few rows costs few attempts, however many begin at once.
func TestBurstOfUpdates(t *testing.T) {
	fixture.Long(t)
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

// A burst of Updates that hand one value of a unique index on, each to a row of its own, costs few
// attempts: what they all contend for is the entry, although each conflicts on another row.
func TestBurstOfTakers(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	const takers = 300
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	limit := int64(env.Client.Stats().Contention.Limit)
	var attempts, most, started atomic.Int64
	var group, together sync.WaitGroup // nobody has the value when the first ones look for it
	together.Add(int(limit))
	for i := range takers {
		group.Go(func() {
			own := int64(0)
			_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				own++
				if started.Add(1) <= limit {
					defer together.Wait()
					defer together.Done()
				}
				for e, err := range tx.ScanIndex(ctx, "people", "mail", percolator.All()) {
					if err != nil {
						return err
					}
					if err := tx.Delete(e.Cell); err != nil {
						return err
					}
				}
				return tx.Set(percolator.Cell{Table: "people", Row: fmt.Sprint("taker-", i), Column: "mail"}, []byte("m"))
			})
			if err != nil {
				t.Error(err)
			}
			attempts.Add(own)
			for m := most.Load(); own > m && !most.CompareAndSwap(m, own); m = most.Load() {
			}
		})
	}
	group.Wait()
	t.Logf("%d attempts, %d of one Update", attempts.Load(), most.Load())
	if most.Load() > 20 || attempts.Load() > 5*takers {
		t.Errorf("%d attempts, %d of one Update", attempts.Load(), most.Load())
	}
	// What others take the value from, they contend for as well.
	if s := env.Client.Stats().Contention; !slices.ContainsFunc(s.Cells, func(c model.ContendedCell) bool {
		return strings.HasPrefix(c.Cell, "people.mail/…/") && c.Conflicts >= limit-1
	}) {
		t.Errorf("no entry is among the most contended cells: %+v", s.Cells)
	}
}

// An Update within the function of another waits for no attempt to end: as many as may run could
// all have one.
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

// BenchmarkHotRow makes Updates of rows of their own from 64 goroutines, alone and beside 64 that
// all add to one row, where a request takes 5 ms: which share of their rate they keep, and how many
// attempts an Update of the hot row takes.
func BenchmarkHotRow(b *testing.B) {
	const others, latency = 6400, 5 * time.Millisecond
	unary := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		time.Sleep(latency)
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	stream := grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		time.Sleep(latency)
		return open(ctx, desc, cc, method, opts...)
	})
	run := func(hot int) (took time.Duration, updates, attempts int64) {
		env := fixture.NewEnv(b)
		c, err := percolator.NewClient(b.Context(), percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle},
			append(env.Options(), option.WithGRPCDialOption(unary), option.WithGRPCDialOption(stream))...)
		fixture.Must(b, err)
		defer c.Close()
		ctx, cancel := context.WithCancel(b.Context())
		var group sync.WaitGroup
		var tried, done atomic.Int64
		for range hot {
			group.Go(func() {
				for ctx.Err() == nil {
					_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
						tried.Add(1)
						return add(ctx, tx, "hot")
					})
					if err == nil {
						done.Add(1)
					}
				}
			})
		}
		took = runBurst(b, b.Context(), c, others, 64, others).took
		cancel()
		group.Wait()
		b.Logf("%d goroutines at the hot row: the others took %v, %+v", hot, took, c.Stats().Contention)
		return took, done.Load(), tried.Load()
	}
	for b.Loop() {
		alone, _, _ := run(0)
		beside, updates, attempts := run(64)
		b.ReportMetric(alone.Seconds()/beside.Seconds(), "rate_kept")
		b.ReportMetric(float64(updates)/beside.Seconds(), "hot_updates/s")
		b.ReportMetric(float64(attempts)/float64(max(1, updates)), "attempts_of_each")
		b.ReportMetric(0, "ns/op")
	}
}
