package measure

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

func scaleContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newTestLab is a lab with the first table of the sweeps of a configuration, full.
func newTestLab(t *testing.T, cfg *scaleBenchmark) (context.Context, *scaleLab, *scaleTable) {
	t.Helper()
	ctx := scaleContext(t)
	cfg.Value, cfg.Samples, cfg.repeat = 50, 2, 2
	table := cfg.sweeps("on")[0].tables[0]
	lab, err := newScaleLab(ctx, cfg, embeddedEmulator, table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.close() })
	if err := lab.fill(ctx, table); err != nil {
		t.Fatal(err)
	}
	return ctx, lab, table
}

// What is filled in is what committed transactions leave: our client finds no fault with it, in
// table and index.
func TestScaleFillsInWhatTransactionsLeave(t *testing.T) {
	t.Parallel()
	ctx, lab, table := newTestLab(t, &scaleBenchmark{Versions: []int{3}, VersionRows: 150})
	report, err := admin.New(lab.client).VerifyIndex(ctx, table.name, scaleIndexName, admin.VerifyIndexOptions{})
	if err != nil || report.Cells != 150 || report.Entries != 150 || report.Damaged() != 0 {
		t.Errorf("the index: %+v, %v", report, err)
	}
	if want := int64(150*(3*2+2+2) + table.held*3*2); lab.filled != want {
		t.Errorf("%d cells, want %d", lab.filled, want)
	}
	for _, k := range []scaleKind{scaleTableScan, scaleScan, scaleGet, scaleIndex, scaleSearch} {
		if err := k.do(ctx, lab, table); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// Every operation refuses an answer that is not what was written.
func TestScaleSeesWrongAnswers(t *testing.T) {
	t.Parallel()
	for _, k := range []scaleKind{scaleGet, scaleScan, scaleTableScan, scaleIndex, scaleLock, scaleSearch} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			ctx, lab, table := newTestLab(t, &scaleBenchmark{Notifications: []int{5}})
			if k.prepare != nil {
				if err := k.prepare(ctx, lab, table); err != nil {
					t.Fatal(err)
				}
			}
			if err := k.do(ctx, lab, table); err != nil {
				t.Fatal(err)
			}
			if k.prepare != nil {
				if err := k.prepare(ctx, lab, table); err != nil {
					t.Fatal(err)
				}
			}
			table.versions++ // of which nothing has been written
			table.notifications++
			if k.name == scaleIndex.name {
				lab.swapEntries(t, ctx, table)
			}
			if err := k.do(ctx, lab, table); !errors.Is(err, errScaleWrong) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// swapEntries lets each entry of the index name another row.
func (lab *scaleLab) swapEntries(t *testing.T, ctx context.Context, table *scaleTable) {
	t.Helper()
	index := lab.bulk(table.name + "." + scaleIndexName)
	var rows []bigtable.Row
	if err := index.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool { rows = append(rows, r); return true }); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		mut := bigtable.NewMutation()
		mut.Set("data", "row", r["data"][0].Timestamp, []byte("another"))
		if err := index.Apply(ctx, r.Key(), mut); err != nil {
			t.Fatal(err)
		}
	}
}

// Writes are remembered, and read by later operations.
func TestScaleRemembersWrites(t *testing.T) {
	t.Parallel()
	ctx, lab, table := newTestLab(t, &scaleBenchmark{Changes: []int{1}})
	for range 3 {
		if err := scaleWrite.do(ctx, lab, table); err != nil {
			t.Fatal(err)
		}
	}
	if len(table.written) != 3 { // the first of them is what was changed before
		t.Errorf("%d rows written, want 3", len(table.written))
	}
	if err := scaleTableScan.do(ctx, lab, table); err != nil {
		t.Error(err)
	}
	clear(table.written)
	if err := scaleTableScan.do(ctx, lab, table); !errors.Is(err, errScaleWrong) {
		t.Errorf("error %v", err)
	}
}

func TestScaleExponent(t *testing.T) {
	t.Parallel()
	law := func(a, b float64) (costs []float64) {
		for _, n := range []float64{10, 100, 1000, 20_000} {
			costs = append(costs, a*math.Pow(n, b))
		}
		return costs
	}
	sizes := []float64{10, 100, 1000, 20_000}
	for _, b := range []float64{-1, 0, 0.5, 1, 2} {
		if got := exponentOf(sizes, law(7, b)); math.Abs(got-b) > 1e-9 {
			t.Errorf("exponent %v, want %v", got, b)
		}
	}
	if got := exponentOf([]float64{5}, []float64{3}); got != 0 {
		t.Errorf("of one size: %v", got)
	}
}

// Ratios are taken within a repetition, and costs of rows are those of a pass divided by rows.
func TestScaleGrowth(t *testing.T) {
	t.Parallel()
	ms := func(all ...int) (out []time.Duration) {
		for _, n := range all {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	tables := []*scaleTable{{size: 10, rows: 10}, {size: 100, rows: 100}}
	op, r := newScaleOperation(scaleKind{name: "k", of: perRow}, tables), newRun("scale")
	for i, rounds := range [][]int{{1, 2, 4}, {20, 20, 20}} {
		for _, n := range rounds {
			op.points[i].add(ms(n))
		}
	}
	op.points[1].cost.add(counted{}, counted{map[string]int64{"ReadRows": 6, "MutateRows": 0}, 300})
	line := op.into(r, "rows", "rows")
	spread := func(f report.Figure, least, median, most float64) bool {
		return f.Value == median && *f.Spread == report.Spread{Min: least, Max: most}
	}
	rows := r.Table("rows").Rows
	if rows[0].Figure("of a").Text != "row" || len(rows) != 2 || !spread(rows[0].Figure("time"), 100, 200, 400) || !spread(rows[1].Figure("time"), 200, 200, 200) {
		t.Errorf("%+v", op)
	}
	p := rows[1]
	if !spread(p.Figure("× smallest"), 0.5, 1, 2) || p.Value("n") != 3 || p.Value("p99") != 200 || p.Value("rows read") != 100 || len(op.points[1].cost.requests) != 1 || p.Value("ReadRows") != 2 {
		t.Errorf("%+v", p)
	}
	if n := r.Table("growth with rows").Row("k").Figure("grows as size to the power of"); n.Name == "" || n.Value != 0 || line.Name != "k, of a row (size^0.00)" {
		t.Errorf("exponent %+v, line %q", n, line.Name)
	}
}

// Notifications are spread over the table.
func TestScaleSpreadsNotifications(t *testing.T) {
	t.Parallel()
	ctx, lab, table := newTestLab(t, &scaleBenchmark{Notifications: []int{4, 200}})
	var rows []string
	for p, err := range admin.New(lab.client).ScanPending(ctx, table.name, percolator.All()) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, p.Row)
	}
	if want := []string{scaleRow(0), scaleRow(50), scaleRow(100), scaleRow(150)}; !slices.Equal(rows, want) {
		t.Errorf("%v, want %v", rows, want)
	}
}
