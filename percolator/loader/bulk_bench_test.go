//go:build unix

package loader_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var bulkRows = flag.Int("bulk.rows", 100_000, "rows of BenchmarkBulk")

// BenchmarkBulk compares an import with a load by transactions, on the same store in one run: rows
// of 200 bytes in one column. The load is blind, so it reads nothing, and has a tenth of the rows.
// Both take turns, so that whatever else the machine does slows both.
//
// The store has a process of its own: what each side takes of the processor is told apart, and the
// rows that the store keeps are no work for this process's garbage collector.
//
// The rates are those of writing. The check of what was stored is reported beside them; the wait
// for the fence, which does not depend on the rows, is in no figure. What a row takes in requests,
// mutations of rows, changes of cells and bytes does not depend on the machine.
func BenchmarkBulk(b *testing.B) {
	schema := &percolator.Schema{
		Tables: []percolator.Table{{Name: "t"}, {Name: "bulk"}},
		Timing: percolator.Timing{RequestLifetime: 5 * time.Second, MetaMaxAge: 5 * time.Second},
	}
	for b.Loop() {
		store := startStore(b)
		env := percolatortest.New(b, schema, percolatortest.Address(store.address))
		c := &comparison{B: b, meter: meter{store: store, traffic: newTraffic()}, rows: *bulkRows}
		c.client = slowClient(b, env, 0, option.WithGRPCDialOption(grpc.WithStatsHandler(c.meter.traffic)))
		c.run()
		c.report()
	}
}

// comparison is one run of BenchmarkBulk. The load is done with when the check begins.
type comparison struct {
	*testing.B
	client *percolator.Client
	meter  meter
	rows   int // of the import

	transactions, writing, check phase
	loaded                       int
}

// turns is how often each of the two has its turn.
const turns = 5

func (c *comparison) run() {
	checking := sync.OnceFunc(func() { c.meter.end(&c.writing) }) // it begins with samples of the table
	rows := loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			c.meter.traffic.onSample("bulk", checking)
			c.yield(yield)
		}
	}, nil)
	r, err := loader.Bulk(c.Context(), c.client, loader.BulkConfig{Table: "bulk", Source: "benchmark"}, rows)
	if err != nil || r.Table.Rows != int64(c.rows) {
		c.Fatalf("%+v, %v", r.Table, err)
	}
	c.meter.end(&c.check)
}

// yield yields the rows of the import, and loads others in between, when all before are stored.
func (c *comparison) yield(yield func(loader.Row, error) bool) {
	const request = 512 // rows: none wait for the next turn
	turn := max(1, c.rows/turns/request) * request
	for i := range c.rows {
		if i%turn == 0 && c.rows-i >= turn {
			if i > 0 {
				c.meter.traffic.awaitStored(turn)
				c.meter.end(&c.writing)
			}
			c.load(turn / 10)
			c.meter.traffic.awaitStored(0)
			c.meter.begin()
		}
		if !yield(loader.Row{Row: fmt.Sprintf("row-%09d", i), Cells: []model.ImportCell{{Column: "c", Value: value}}}, nil) {
			return
		}
	}
}

// load loads rows by transactions.
func (c *comparison) load(n int) {
	c.meter.begin()
	r, err := loader.Load(c.Context(), c.client, loader.Config{TxnOptions: []percolator.TxnOption{percolator.Blind()}}, loader.Job[string]{
		Source: source(fmt.Sprintf("many-%d-", c.loaded), n), Write: loader.Each(benchSet),
	})
	if err != nil || r.Items != int64(n) {
		c.Fatalf("%d rows, %v", r.Items, err)
	}
	if err := c.client.Flush(c.Context()); err != nil {
		c.Fatal(err)
	}
	c.meter.end(&c.transactions)
	c.loaded += n
}

func (c *comparison) report() {
	c.ReportMetric(0, "ns/op")
	slow, fast := c.transactions.report(c.B, "load", c.loaded), c.writing.report(c.B, "import", c.rows)
	checked := c.check.report(c.B, "check", c.rows)
	c.ReportMetric(fast/slow, "ratio")
	c.ReportMetric(1/(1/fast+1/checked)/slow, "ratio-with-check")
	per := func(d time.Duration, rows int) float64 { return float64(d) / float64(rows) }
	c.ReportMetric(per(c.transactions.cpu, c.loaded)/per(c.writing.cpu, c.rows), "client-cpu-ratio")
	c.ReportMetric(per(c.transactions.store, c.loaded)/per(c.writing.store, c.rows), "store-cpu-ratio")
}
