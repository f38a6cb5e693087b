package gc_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What collection costs: rows a second while it resolves and while it erases, and how many
// transactions a second others commit meanwhile, in proportion to what the same ones commit right
// before. Half of the rows have garbage, two old versions each.
func BenchmarkCollection(b *testing.B) {
	for _, pace := range []int{0, 1_000_000} {
		name := "default pace"
		if pace > 0 {
			name = "as fast as it can"
		}
		b.Run(name, func(b *testing.B) {
			for range b.N {
				benchCollection(b, pace, false)
			}
		})
	}
	b.Run("by passes, as fast as it can", func(b *testing.B) {
		for range b.N {
			benchCollection(b, 1_000_000, true)
		}
	})
}

func benchCollection(b *testing.B, pace int, byPasses bool) {
	const rows = 20_000
	s := fixture.Schema()
	s.Timing = percolator.Timing{RequestLifetime: 3 * time.Second, MetaMaxAge: 3 * time.Second}
	s.DisableJournal = byPasses
	env := percolatortest.New(b, s, fixture.ShortRetention)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for version := range 3 {
		step := min(version, 1) + 1
		for from := 0; from < rows; from += 2000 {
			tx := fixture.MustBegin(b, ctx, env.Client)
			for i := from; i < from+2000; i += step {
				fixture.Must(b, tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("some value")))
			}
			fixture.MustCommit(b, ctx, tx)
		}
		fixture.Must(b, env.Client.Flush(ctx))
	}
	env.Clock.Advance(fixture.PastRetention)

	load := startTransactions(b, ctx, env)
	var resolveBegan, eraseBegan time.Time
	var alone, before float64
	g := fixture.NewCollector(b, env.NewClient(fixture.ShortRetention), model.CollectorConfig{RowsPerSecond: pace, Progress: func(col model.Collection) {
		switch {
		case col.Phase == model.CollectionDrain && before == 0: // only the load is at work
			before = 1
			load.mark()
		case col.Phase == model.CollectionResolve && resolveBegan.IsZero():
			resolveBegan = time.Now()
		case col.Phase == model.CollectionErase && eraseBegan.IsZero():
			alone = load.rate()
			eraseBegan = time.Now()
			load.mark()
		}
	}})
	b.ResetTimer()
	col, err := g.Collect(ctx)
	fixture.Must(b, err)
	took, together := time.Since(eraseBegan), load.rate()
	load.stop()
	if col.Versions < rows {
		b.Fatalf("collected %+v", col)
	}
	b.ReportMetric(float64(col.Rows)/eraseBegan.Sub(resolveBegan).Seconds(), "resolved/s") // rows, read for locks
	b.ReportMetric(float64(col.Rows)/took.Seconds(), "rows/s")
	b.ReportMetric(float64(col.Versions)/took.Seconds(), "removed/s")
	b.ReportMetric(alone, "txn/s-alone")
	b.ReportMetric(together/alone, "txn-ratio")
	b.ReportMetric(0, "ns/op")
}

// transactions are transactions that go on until they are stopped.
type transactions struct {
	done      atomic.Int64
	since     time.Time
	base      int64
	cancel    context.CancelFunc
	goroutine sync.WaitGroup
}

func startTransactions(b *testing.B, ctx context.Context, env *percolatortest.Env) *transactions {
	ctx, cancel := context.WithCancel(ctx)
	l := &transactions{cancel: cancel}
	c := env.NewClient(fixture.ShortRetention)
	for w := range 4 {
		l.goroutine.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				err := fixture.Update(ctx, c, func(tx *percolator.Txn) error {
					if _, err := tx.GetMulti(ctx, fixture.Cell(fixture.Key(i), "c")); err != nil {
						return err
					}
					return tx.Set(fixture.Cell(fmt.Sprintf("load-%d-%d", w, i%500), "c"), []byte("v"))
				})
				if err == nil {
					l.done.Add(1)
				} else if ctx.Err() == nil {
					b.Error(err)
					return
				}
			}
		})
	}
	return l
}

func (l *transactions) mark() { l.since, l.base = time.Now(), l.done.Load() }

func (l *transactions) rate() float64 {
	return float64(l.done.Load()-l.base) / time.Since(l.since).Seconds()
}

func (l *transactions) stop() { l.cancel(); l.goroutine.Wait() }
