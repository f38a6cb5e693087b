package percolator_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// BenchmarkJournal tells which share of the rate without a journal single-cell writes reach with
// one, where client and store share the processors, and where a request takes 2 ms. Both take short
// turns, a fixed number whatever -benchtime is, and each pair of turns gives a ratio: what else the
// machine does meets both. The metrics are the median, the least and the greatest of them.
func BenchmarkJournal(b *testing.B) {
	for _, latency := range []time.Duration{0, 2 * time.Millisecond} {
		for _, goroutines := range []int{1, 64} {
			b.Run(fmt.Sprintf("%v/%d", latency, goroutines), func(b *testing.B) {
				turn := journalTurn{goroutines, max(64, 8*goroutines), map[bool]*percolatortest.Env{}}
				for _, off := range []bool{true, false} {
					schema := &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, DisableJournal: off}
					turn.sides[off] = percolatortest.New(b, schema, fixture.OnDisks(b, &emulator.Disks{Latency: latency}))
					turn.run(b, off) // the client's first commit waits for its session and header
				}
				turn.compare(b)
			})
		}
	}
}

// journalTurn is blind writes of one cell each, of the same rows in every turn.
type journalTurn struct {
	goroutines, writes int
	sides              map[bool]*percolatortest.Env // by DisableJournal
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
	ctx, client := fixture.Context(b), t.sides[off].Client
	var rows atomic.Int64
	var group sync.WaitGroup
	begun := time.Now()
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
	took := time.Since(begun)
	fixture.Must(b, client.Flush(ctx)) // the other side's turn is not to meet it
	return took
}
