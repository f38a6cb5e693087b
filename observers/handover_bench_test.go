package observers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// BenchmarkShare has 1, 2 and 4 workers of 4 slots run for what the client of the first has
// written, where a request takes 5 ms: how many times as fast as one they are, and how many
// requests they make for each of one.
func BenchmarkShare(b *testing.B) {
	const cells = 2000
	for _, batch := range []int{0, 10} {
		b.Run(fmt.Sprintf("batches of %d", max(1, batch)), func(b *testing.B) {
			for b.Loop() {
				var alone shared
				for _, workers := range []int{1, 2, 4} {
					s := newEnvOf(b, byJournal, []percolator.Table{table()}).share(workers, 4, cells, batch, 5*time.Millisecond)
					if workers == 1 {
						alone = s
						continue
					}
					b.ReportMetric(alone.took.Seconds()/s.took.Seconds(), fmt.Sprintf("x_by_%d", workers))
					b.ReportMetric(float64(s.requests)/float64(alone.requests), fmt.Sprintf("requests_by_%d", workers))
				}
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
