package percolator_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func BenchmarkJournal(b *testing.B) {
	for _, workers := range []int{1, 64} {
		envs := map[bool]*percolatortest.Env{}
		for _, off := range []bool{true, false} {
			envs[off] = percolatortest.New(b, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, DisableJournal: off})
		}
		took := map[bool]time.Duration{}
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			var n atomic.Int64
			for round := range 6 {
				off := round%2 == 0
				begun := time.Now()
				var all sync.WaitGroup
				for range workers {
					all.Go(func() {
						for i := 0; i < 2000/workers*8; i++ {
							_, err := envs[off].Client.Update(context.Background(), func(ctx context.Context, tx *percolator.Txn) error {
								return tx.Set(percolator.Cell{Table: "t", Row: fmt.Sprint(n.Add(1)), Column: "c"}, []byte("v"))
							}, percolator.Blind())
							if err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
				took[off] += time.Since(begun)
			}
			b.ReportMetric(float64(took[true])/float64(took[false]), "on/off")
			b.ReportMetric(0, "ns/op")
		})
		s := envs[false].Client.Stats()
		b.Logf("%d: %+v", workers, s)
	}
}
