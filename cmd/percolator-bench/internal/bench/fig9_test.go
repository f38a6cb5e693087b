package bench

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
)

func TestFig9Settings(t *testing.T) {
	t.Parallel()
	const q, d = tpce.Queued, tpce.Direct
	got := Fig9Config{Cores: []int{4, 1}, Customers: []int{10, 300, 20}, Commissions: []tpce.Commission{q, d}}.settings()
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
	tally := newFig9Tally()
	result := tpce.Done{Kind: tpce.TradeResult, Took: 2 * time.Millisecond, Attempts: 3, Executed: true}
	tally.done(result)
	tally.begin()
	tally.done(result)
	result.Executed, result.Took = false, time.Hour
	tally.done(result)
	tally.done(tpce.Done{Kind: tpce.TradeStatus, Took: time.Millisecond, Attempts: 1})
	tally.end()
	tally.done(result)
	kinds, executed := tally.export()
	if k := kinds[tpce.TradeResult]; executed != 1 || k.Count != 2 || k.Conflicts != 4 {
		t.Errorf("%d executed, %+v", executed, k)
	}
	if k := kinds[tpce.TradeStatus]; k.Count != 1 || k.Conflicts != 0 {
		t.Errorf("%+v", k)
	}
}

// The process of a repetition answers with what went wrong, and takes the next job.
func TestFig9RunTellsErrors(t *testing.T) {
	t.Parallel()
	in := strings.NewReader(`{"emulator": "mine", "customers": 1, "commission": "row"}
{"emulator": "embedded", "customers": 0, "commission": "row"}
{"emulator": "embedded", "customers": 1, "commission": "gifts"}`)
	out := new(bytes.Buffer)
	if err := Fig9Run(t.Context(), in, out); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(out)
	for _, want := range []string{`emulator "mine"`, "size", `"gifts"`} {
		var r fig9Result
		if err := answers.Decode(&r); err != nil || !strings.Contains(r.Error, want) {
			t.Errorf("%v, error %q: want %q", err, r.Error, want)
		}
	}
}

// The repetitions of a setting are put together: rates by repetition, counts and latencies over all of them.
func TestFig9Row(t *testing.T) {
	t.Parallel()
	var results []*fig9Result
	for i := range 3 {
		tally := newFig9Tally()
		tally.begin()
		for range 10 * (i + 1) {
			tally.done(tpce.Done{Kind: tpce.TradeOrder, Took: time.Millisecond, Attempts: 1})
			tally.done(tpce.Done{Kind: tpce.TradeResult, Took: 8 * time.Millisecond, Attempts: 1 + i, Executed: true})
		}
		kinds, executed := tally.export()
		results = append(results, &fig9Result{
			Seconds: 2, CPU: 3, Executed: executed, Kinds: kinds, Folds: Fig9Folds{Runs: 2, Conflicts: 1},
			Requests: map[string]int64{"ReadRows": 40, "Oracle": 20}, Audit: tpce.Audit{Trades: executed},
		})
	}
	row := fig9Setting{2, 100, tpce.Queued}.row(results)
	if row.TPS != (Summary{5, 10, 15}) || row.All != (Summary{10, 20, 30}) ||
		row.CoresUsed.Median != 1.5 || !row.Queue || len(row.Audits) != 3 {
		t.Errorf("%+v", row)
	}
	if row.Folds != (Fig9Folds{6, 3}) || row.Requests["ReadRows"] != 1 ||
		row.Requests["Oracle"] != 0.5 || row.Storage != 1 {
		t.Errorf("%+v", row)
	}
	// 60 orders without a conflict; 60 results with 10·0 + 20·1 + 30·2.
	if r := row.Transactions[1]; r.Type != tpce.TradeResult || r.Count != 60 || r.Conflicts != 80 || r.P50 < 7.9 || r.P50 > 8.2 || r.Max < r.P99 {
		t.Errorf("%+v", r)
	}
	if want := 80. / 120; row.ConflictsPerCommit != want {
		t.Errorf("%v conflicts a commit", row.ConflictsPerCommit)
	}
}
