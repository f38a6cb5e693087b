package measure

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/plot"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
)

func TestFig9Settings(t *testing.T) {
	t.Parallel()
	const q, d = tpce.Queued, tpce.Direct
	got := (&fig9Benchmark{Cores: []int{4, 1}, Customers: []int{10, 300, 20}, Commission: []string{string(q), string(d)}}).settings()
	want := []fig9Setting{
		{1, 300, q}, {1, 300, d}, {4, 300, q}, {4, 300, d}, // cores, with the most customers
		{4, 10, q}, {4, 10, d}, {4, 20, q}, {4, 20, d}, // customers, with the most cores; 300 are there already
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Only what ends between begin and end counts.
func TestFig9Tally(t *testing.T) {
	t.Parallel()
	tally := newFig9Result()
	result := tpce.Done{Kind: tpce.TradeResult, Took: 2 * time.Millisecond, Attempts: 3, Executed: true}
	tally.done(result)
	tally.count(true)
	tally.done(result)
	result.Executed, result.Took = false, time.Hour
	tally.done(result)
	tally.done(tpce.Done{Kind: tpce.TradeStatus, Took: time.Millisecond, Attempts: 1})
	tally.count(false)
	tally.done(result)
	kinds, executed := tally.Kinds, tally.Executed
	if k := kinds[tpce.TradeResult]; executed != 1 || k.Latencies.count() != 2 || k.Conflicts != 4 {
		t.Errorf("%d executed, %+v", executed, k)
	}
	if k := kinds[tpce.TradeStatus]; k.Latencies.count() != 1 || k.Conflicts != 0 {
		t.Errorf("%+v", k)
	}
}

// The process of a repetition answers with what went wrong.
func TestFig9RunTellsErrors(t *testing.T) {
	t.Parallel()
	for job, want := range map[string]string{
		`{"Emulator": "mine", "Setting": {"Customers": 1, "Commission": "row"}}`:       `emulator "mine"`,
		`{"Emulator": "embedded", "Setting": {"Customers": 0, "Commission": "row"}}`:   "size",
		`{"Emulator": "embedded", "Setting": {"Customers": 1, "Commission": "gifts"}}`: `"gifts"`,
	} {
		out := new(bytes.Buffer)
		if err := setUp(fig9Run)(t.Context(), &lines{json.NewDecoder(strings.NewReader(job + "{}")), json.NewEncoder(out)}); err == nil {
			t.Errorf("%s: no error", job)
		}
		var r reply
		if err := json.NewDecoder(out).Decode(&r); err != nil || !strings.Contains(r.Error, want) {
			t.Errorf("%v, error %q: want %q", err, r.Error, want)
		}
	}
}

// The repetitions of a setting are put together: rates by repetition, counts and latencies over all
// of them.
func TestFig9Row(t *testing.T) {
	t.Parallel()
	var results []*fig9Result
	for i := range 3 {
		tally := newFig9Result()
		tally.count(true)
		for range 10 * (i + 1) {
			tally.done(tpce.Done{Kind: tpce.TradeOrder, Took: time.Millisecond, Attempts: 1})
			tally.done(tpce.Done{Kind: tpce.TradeResult, Took: 8 * time.Millisecond, Attempts: 1 + i, Executed: true})
		}
		tally.Seconds, tally.CPU, tally.Audit.Trades = 2, 3, tally.Executed
		tally.Requests = map[string]int64{"ReadRows": 40, "Oracle": 20}
		results = append(results, tally)
	}
	s, out := fig9Setting{2, 100, tpce.Queued}, newRun("fig9")
	s.into(out, results)
	row, each := out.Table("fig9").Row(s.String()), out.Table("requests/transaction").Row(s.String())
	spread := func(f report.Figure, least, median, most float64) bool {
		return f.Value == median && *f.Spread == report.Spread{Min: least, Max: most}
	}
	if !spread(row.Figure("trades/s"), 5, 10, 15) || !spread(row.Figure("all transactions/s"), 10, 20, 30) ||
		row.Value("cores used") != 1.5 || row.Figure("commission").Text != "queue" || len(out.Table("audits").Rows) != 3 {
		t.Errorf("%+v", row)
	}
	if each.Value("ReadRows") != 1 ||
		each.Value("Oracle") != 0.5 || row.Value("storage requests/transaction") != 1 {
		t.Errorf("%+v, %+v", row, each)
	}
	// 60 orders without a conflict; 60 results with 10·0 + 20·1 + 30·2.
	if r := out.Table(s.String()).Rows[1]; r.Name != string(tpce.TradeResult) || r.Value("n") != 60 || r.Value("conflicts") != 80 ||
		r.Value("p50") < 7.9 || r.Value("p50") > 8.2 || r.Value("max") < r.Value("p99") {
		t.Errorf("%+v", r)
	}
	if want := 80. / 120; row.Value("conflicts/commit") != want {
		t.Errorf("%v conflicts a commit", row.Value("conflicts/commit"))
	}
}

// Charts are drawn of whatever was measured, of nothing executed and of a single setting, too.
func TestFig9Charts(t *testing.T) {
	t.Parallel()
	add := func(r *run, cores, customers int, c tpce.Commission, tps float64) {
		row := r.Table("fig9").Row(fig9Setting{cores, customers, c}.String())
		row.Add("cores", cores, "customers", customers, "commission", string(c), "trades/s", tps)
	}
	r := newRun("fig9")
	for _, s := range []struct {
		cores, customers int
		c                tpce.Commission
		tps              float64
	}{
		{1, 100, tpce.Queued, 10}, {1, 100, tpce.Direct, 5}, {4, 100, tpce.Queued, 30}, {4, 100, tpce.Direct, 6},
		{4, 10, tpce.Queued, 20}, {4, 10, tpce.Direct, 1},
	} {
		add(r, s.cores, s.customers, s.c, s.tps)
	}
	(&fig9Benchmark{Cores: []int{1, 4}, Customers: []int{100, 10}}).draw(r)
	byCores, byCustomers := r.Charts[0].Lines, r.Charts[1].Lines
	if len(byCores) != 3 || !slices.Equal(byCores[0].X, []float64{1, 4}) ||
		!slices.Equal(byCores[0].Y, []float64{10, 30}) || !slices.Equal(byCores[1].Y, []float64{5, 6}) {
		t.Errorf("%+v", byCores)
	}
	if len(byCustomers) != 2 || !slices.Equal(byCustomers[1].X, []float64{10, 100}) || !slices.Equal(byCustomers[1].Y, []float64{1, 6}) {
		t.Errorf("%+v", byCustomers)
	}
	if l := byCores[2]; l.Name != "linear" || !slices.Equal(l.Y, []float64{10, 40}) {
		t.Errorf("%+v", l)
	}
	one, none := newRun("fig9"), newRun("fig9")
	add(one, 1, 100, tpce.Queued, 10)
	(&fig9Benchmark{Cores: []int{1}, Customers: []int{100}}).draw(one)
	add(none, 1, 1, tpce.Omitted, 0)
	(&fig9Benchmark{Cores: []int{1}, Customers: []int{1}}).draw(none)
	for _, r := range []*run{r, one, none} {
		if err := plot.Save(t.TempDir(), r.Charts); err != nil || len(r.Charts) != 2 {
			t.Errorf("%d charts, %v", len(r.Charts), err)
		}
	}
}

func TestAllCores(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 8: {1, 2, 4, 8}} {
		if got := allCores(n); !slices.Equal(got, want) {
			t.Errorf("%d cores: %v", n, got)
		}
	}
}
