//go:build unix

package loader_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var bulkRows = flag.Int("bulk.rows", 100_000, "rows of BenchmarkBulk")

// BenchmarkBulk compares an import with a load by transactions, on the same store in one run: rows
// of 200 bytes in one column. The load is blind, so it reads nothing, and has a tenth of the rows.
// The rates are those of writing: the wait for the fence and the check of what was stored are in
// the whole. The processor is the limit, which this process shares with the emulator.
func BenchmarkBulk(b *testing.B) {
	schema := &percolator.Schema{
		Tables: []percolator.Table{{Name: "t"}, {Name: "bulk"}},
		Timing: percolator.Timing{RequestLifetime: 10 * time.Second, MetaMaxAge: time.Second},
	}
	n := *bulkRows
	for b.Loop() {
		env := percolatortest.New(b, schema)
		client := slowClient(b, env, 0)
		began := now()
		loaded, err := loader.Load(b.Context(), client, loader.Config{TxnOptions: []percolator.TxnOption{percolator.Blind()}}, loader.Job[string]{
			Source: source("many-", n/10), Write: loader.Each(benchSet),
		})
		if err != nil || loaded.Items != int64(n/10) {
			b.Fatalf("%d rows, %v", loaded.Items, err)
		}
		if err := client.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		var one, many spent
		one.since(began)

		began = now()
		var loading spent
		cfg := loader.BulkConfig{Table: "bulk", Source: "benchmark", Waiting: func(time.Duration) {}}
		rows := loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
			return func(yield func(loader.Row, error) bool) {
				loading = now()
				for i := range n {
					if !yield(loader.Row{Row: fmt.Sprintf("row-%09d", i), Cells: []admin.ImportCell{{Column: "c", Value: value}}}, nil) {
						return
					}
				}
			}
		}, nil)
		r, err := loader.Bulk(b.Context(), client, cfg, rows)
		if err != nil || r.Table.Rows != int64(n) {
			b.Fatalf("%+v, %v", r.Table, err)
		}
		many.since(began)
		slow := float64(n/10) / one.wall.Seconds()
		// Progress.Elapsed begins with the call; the rows began when the source did.
		writing := time.Duration(began.wall) + r.Elapsed - time.Duration(loading.wall)
		fast := float64(n) / writing.Seconds()
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(slow, "transactions-rows/s")
		b.ReportMetric(fast, "import-rows/s")
		b.ReportMetric(fast/slow, "ratio")
		b.ReportMetric(float64(n)/many.wall.Seconds()/slow, "ratio-with-wait-and-check")
		b.ReportMetric(float64(one.cpu.Microseconds())/float64(n/10), "transactions-cpu-µs")
		b.ReportMetric(float64(many.cpu.Microseconds())/float64(n), "import-cpu-µs")
	}
}
