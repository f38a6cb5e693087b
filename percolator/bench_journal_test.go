package percolator_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// BenchmarkJournal tells which share of the rate without a journal single-cell writes reach with
// one, where client and store share the processors, and where a request takes 2 and 5 ms. Both take
// turns, a fixed number whatever -benchtime is, and each pair of turns gives a ratio: what else the
// machine does meets both. The metrics are the median, the least and the greatest of them.
func BenchmarkJournal(b *testing.B) {
	for _, latency := range []time.Duration{0, 2 * time.Millisecond, 5 * time.Millisecond} {
		for _, goroutines := range []int{1, 64} {
			b.Run(fmt.Sprintf("%v/%d", latency, goroutines), func(b *testing.B) {
				turn := journalTurn{goroutines, 32 * goroutines, map[bool]*percolator.Client{}}
				if latency == 0 {
					turn.writes = 512 + 64*goroutines
				}
				for _, off := range []bool{true, false} {
					var opts []emulator.Option
					if latency > 0 {
						opts = append(opts, emulator.OnDisks(&emulator.Disks{Latency: latency}))
					}
					turn.sides[off] = benchClientOf(b, percolator.Config{}, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, DisableJournal: off}, opts...)
					turn.run(b, off) // the client's first commits wait for its session and headers
				}
				turn.compare(b)
			})
		}
	}
}

// journalTurn is blind writes of one cell each, of the same rows in every turn.
type journalTurn struct {
	goroutines, writes int
	sides              map[bool]*percolator.Client // by DisableJournal
}

func (t journalTurn) compare(b *testing.B) {
	const pairs = 21
	var ratios []float64
	for i := range pairs {
		took := map[bool]time.Duration{}
		for _, off := range []bool{i%2 == 0, i%2 != 0} {
			took[off] = t.run(b, off)
		}
		ratios = append(ratios, float64(took[true])/float64(took[false]))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[pairs/2], "on/off")
	b.ReportMetric(ratios[0], "least")
	b.ReportMetric(ratios[pairs-1], "greatest")
	b.ReportMetric(0, "ns/op")
}

func (t journalTurn) run(b *testing.B, off bool) time.Duration {
	b.Helper()
	ctx, client := fixture.Context(b), t.sides[off]
	var rows atomic.Int64
	var group sync.WaitGroup
	started := time.Now()
	for range t.goroutines {
		group.Go(func() {
			for i := rows.Add(1); i <= int64(t.writes); i = rows.Add(1) {
				_, err := client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
					return tx.Set(fixture.Cell(fmt.Sprint(i), "c"), []byte("v"))
				}, percolator.Blind())
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	took := time.Since(started)
	fixture.Must(b, client.Flush(ctx)) // the other side's turn is not to meet it
	return took
}
