package capacity_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/capacity"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// byHand is a workload of round numbers: an item has 984 + 40 = 1,024 bytes, one write unit.
// Transactions read 10,000 rows a second and runs 20,000; both write 10,000, and runs 10,000 small
// ones more.
func byHand(w *capacity.Workload) {
	w.Rows, w.RowBytes, w.Changes, w.RowsPerTransaction = 1e6, 984, 10_000, 10
	w.Observers, w.ObserverReads, w.ObserverWrites = 1, 1, 1
}

// compared is the sides by name.
func compared(t *testing.T, in capacity.Inputs, configure func(w *capacity.Workload)) map[string]capacity.Side {
	t.Helper()
	w := capacity.DefaultWorkload()
	configure(&w)
	c, err := capacity.Compare(w, in, capacity.Alternatives, []float64{1, 3, 5})
	fixture.Must(t, err)
	sides := map[string]capacity.Side{}
	for _, s := range c.Sides {
		sides[s.Name] = s
	}
	return sides
}

// The lines of docs/COMPARISON.md and docs/internals/BENCHMARKS.md, as a calculator has them.
func TestLinesOfTheComparison(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/examples/capacity/10k.yaml")
	fixture.Must(t, err)
	example := func(w *capacity.Workload) { fixture.Must(t, w.Parse(text)) }
	sides := compared(t, inputs(t), example)
	p := plan(t, inputs(t), func(w *capacity.Workload) { example(w); w.BackupInterval.Duration = 24 * time.Hour })
	near(t, "for requests", p.Nodes.ForRequests, (142_600.0/17_000+99_730.0/14_000)/0.6)
	near(t, "rows read, and conditional mutations", p.Requests.RowsRead+p.Passes.RowsByJournal+p.Requests.CheckAndMutateRow, 80_000+21_600+41_000)
	near(t, "for sweeps and backups", p.Nodes.ForPasses, 2.1945)
	near(t, "nodes", *sides["ours"].Nodes, 29)
	near(t, "plain nodes", *sides["plain"].Nodes, 11)     // (80,000/17,000 + 20,000/14,000) / 0.6 = 10.2
	near(t, "Spanner nodes", *sides["spanner"].Nodes, 19) // (80,000/22,500 + 30,000/3,500) / 0.65 = 18.7
	near(t, "on demand", *sides["dynamodb on demand"].Money.Compute, (60_625*0.625+160_000*0.125)*2.628)
	near(t, "provisioned", *sides["dynamodb provisioned"].Money.Compute, (60_625*0.00065+160_000*0.00013)*730/0.7)
	for name, want := range map[string]float64{"ours": 0.8113, "plain": 0.3574, "spanner": 0.4794, "dynamodb on demand": 5.791, "dynamodb provisioned": 2.391} {
		near(t, name+", a million changes", *sides[name].USDMillion, want)
	}
}

func TestPlainByHand(t *testing.T) {
	t.Parallel()
	s := compared(t, inputs(t), byHand)["plain"]
	near(t, "nodes", *s.Nodes, 6)                                  // (30,000/17,000 + 20,000/14,000) / 0.6 = 5.32
	near(t, "compute", *s.Money.Compute, 2847)                     // 6 × 0.65 × 730
	near(t, "stored", s.Stored, 1e6*1032+20_000*1032*604_800)      // rows of 984 + 48, for a week
	near(t, "storage", *s.Money.Storage, 12.484e12/(1<<30)*0.17)   // 1,976
	near(t, "backups", *s.Money.Backups, 7*12.484e12/(1<<30)*.026) // 2,116
	near(t, "all", *s.Money.All, 2847+1976.5+2116.1)
	near(t, "a million changes", *s.USDMillion, 6939.6/26_280) // of a month, 10,000 × 2,628,000 s
}

func TestSpannerByHand(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	s := compared(t, in, byHand)["spanner"]
	near(t, "nodes", *s.Nodes, 16)                              // (30,000/22,500 + 30,000/3,500) / 0.65 = 15.24
	near(t, "compute", *s.Money.Compute, 10_512)                // 16 × 10 × 0.09 × 730
	near(t, "stored", s.Stored, 1e6*1024+20_000*1024*3600)      // old versions for an hour
	near(t, "storage", *s.Money.Storage, 74.752e9/(1<<30)*0.30) // 20.89
	near(t, "backups", *s.Money.Backups, 7*74.752e9/(1<<30)*0.10)
	near(t, "all", *s.Money.All, 10_512+20.89+48.73)

	small := func(w *capacity.Workload) { w.Rows, w.Changes = 1e6, 100 }
	near(t, "processing units", *compared(t, in, small)["spanner"].Nodes, 0.1) // (100/22,500 + 100/3,500) / 0.65 = 0.051
	fixture.Must(t, in.Set("spannerWrites", "22500"))
	near(t, "nodes with optimized writes", *compared(t, in, byHand)["spanner"].Nodes, 5) // 60,000/22,500 / 0.65 = 4.10
}

func TestDynamoByHand(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	demand := compared(t, in, byHand)["dynamodb on demand"]
	near(t, "write units", *demand.WriteUnits, 60_000)     // 30,000 rows, two units each
	near(t, "read units", *demand.ReadUnits, 60_000)       // 30,000 rows, two units each
	near(t, "compute", *demand.Money.Compute, 118_260)     // 2.628 million s × (60,000 × 0.625 + 60,000 × 0.125)
	near(t, "stored", demand.Stored, 1e6*1124)             // items of 1,024 + 100
	near(t, "all", *demand.Money.All, 118_260+0.262+0.733) // 1.0468 GiB × 0.25, and 7 × 0.10
	provisioned := compared(t, in, byHand)["dynamodb provisioned"]
	near(t, "compute", *provisioned.Money.Compute, 48_805.7)     // 730 / 0.7 × 60,000 × (0.00065 + 0.00013)
	near(t, "a million changes", *provisioned.USDMillion, 1.857) // 48,806.7 / 26,280

	// An item alone needs no transaction.
	alone := compared(t, in, func(w *capacity.Workload) { w.Rows, w.Changes, w.RowBytes = 1e6, 10_000, 984 })["dynamodb on demand"]
	near(t, "write units of items alone", *alone.WriteUnits, 10_000)
	near(t, "read units of items alone", *alone.ReadUnits, 10_000)
	// 8,152 + 40 bytes are eight write units and two read units.
	large := compared(t, in, func(w *capacity.Workload) { w.Rows, w.Changes, w.RowBytes = 1e6, 10_000, 8152 })["dynamodb on demand"]
	near(t, "write units of large items", *large.WriteUnits, 80_000)
	near(t, "read units of large items", *large.ReadUnits, 20_000)

	refused := compared(t, in, func(w *capacity.Workload) { w.Rows, w.Changes, w.RowsPerTransaction = 1e6, 1000, 101 })["dynamodb on demand"]
	if !strings.Contains(refused.GivesUp, "refuses transactions of 101") {
		t.Error(refused.GivesUp)
	}
}

// Ours is what the plan costs, and two processors for servers of the oracle.
func TestOursIsThePlan(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	w := capacity.DefaultWorkload()
	byHand(&w)
	p, err := capacity.NewPlan(w, in)
	fixture.Must(t, err)
	sides := compared(t, in, byHand)
	near(t, "all", *sides["ours"].Money.All, p.Money.All+2*0.053*730)
	near(t, "nodes", *sides["ours"].Nodes, p.Nodes.Needed)
	near(t, "rows that others read", 30_000, p.Requests.RowsRead) // as byHand counts them
	in["spannerPrice"] = capacity.Input{}
	if m := compared(t, in, byHand); m["ours"].Money.All != nil || m["spanner"].USDMillion != nil || m["plain"].Even.Changes != nil || m["plain"].Money.All == nil {
		t.Errorf("%+v", m)
	}
}

// Rows of ten times the size for which speeds are given cost ten times the reading, and ten times
// the writing of values.
func TestLargeRowsNeedMoreNodes(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	nodes := func(bytes float64) capacity.Nodes {
		return plan(t, in, func(w *capacity.Workload) { w.Rows, w.Changes, w.RowBytes = 1e6, 1000, bytes }).Nodes
	}
	near(t, "larger", nodes(10_000).ForRequests-nodes(1000).ForRequests, 9*(1000.0/17_000+1000.0/14_000)/0.6)
	near(t, "smaller", nodes(10).ForRequests, nodes(1000).ForRequests)
}

// With one item at a time, nothing deleted and no backups, ours costs 474.50 for a node, 65.70 for
// the oracle's record, 77.38 for its servers, and 0.0084 of processors for each change a second:
// (186 + 30) µs × 38.69. DynamoDB costs 2.628 × (0.625 + 0.125) = 1.971 for each.
func TestBreakEvenByHand(t *testing.T) {
	t.Parallel()
	in := inputs(t)
	fixture.Must(t, in.Set("deletedDays", "0.001"))
	sides := compared(t, in, func(w *capacity.Workload) {
		w.Rows, w.Changes, w.RowBytes, w.TableBackups, w.BackupInterval.Duration = 1e6, 1000, 900, 0, 0
	})
	turn := sides["dynamodb on demand"].Even.Changes
	if turn.Cheaper != "ours" {
		t.Fatalf("%+v", turn)
	}
	near(t, "from", *turn.From, (474.50+65.70+77.38)/(1.971-0.0084)) // 314.7
	if turn := sides["plain"].Even.Changes; turn.Cheaper != "plain" || turn.From != nil {
		t.Errorf("%+v", turn)
	}
	// On either side of it the other is cheaper.
	for factor, cheaper := range map[float64]bool{0.99: false, 1.01: true} {
		sides := compared(t, in, func(w *capacity.Workload) {
			w.Rows, w.Changes, w.RowBytes, w.TableBackups, w.BackupInterval.Duration = 1e6, 1000, 900, 0, 0
			*w = w.Times(*turn.From / 1000 * factor)
		})
		if got := *sides["ours"].Money.All < *sides["dynamodb on demand"].Money.All; got != cheaper {
			t.Errorf("at %v of it ours is cheaper: %v", factor, got)
		}
	}
}
