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
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// BenchmarkJournal tells which share of the rate without a journal single-cell writes reach with
// one. Both take short turns, a fixed number whatever -benchtime is, and each pair of turns
// gives a ratio: what else the machine does meets both. The metrics are the median, the least and
// the greatest of them.
func BenchmarkJournal(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			sides := map[bool]*percolatortest.Env{} // by DisableJournal
			for _, off := range []bool{true, false} {
				sides[off] = percolatortest.New(b, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, DisableJournal: off})
				journalTurn(b, sides[off], goroutines) // the client's first commit waits for its session and header
			}
			const pairs = 11
			var ratios []float64
			for i := range pairs {
				took := map[bool]time.Duration{}
				for _, off := range []bool{i%2 == 0, i%2 != 0} {
					took[off] = journalTurn(b, sides[off], goroutines)
				}
				ratios = append(ratios, float64(took[true])/float64(took[false]))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[pairs/2], "on/off")
			b.ReportMetric(ratios[0], "least")
			b.ReportMetric(ratios[pairs-1], "greatest")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// journalWrites is how many writes a turn has.
const journalWrites = 256

// journalTurn times blind writes of one cell each, of the same rows in every turn.
func journalTurn(b *testing.B, env *percolatortest.Env, goroutines int) time.Duration {
	b.Helper()
	ctx := fixture.Context(b)
	var rows atomic.Int64
	var group sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		group.Go(func() {
			for i := rows.Add(1); i <= journalWrites; i = rows.Add(1) {
				_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
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
	fixture.Must(b, env.Client.Flush(ctx)) // the other side's turn is not to meet it
	return took
}
