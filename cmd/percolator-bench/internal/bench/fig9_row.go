package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
)

// row puts the repetitions of a setting together.
func (s fig9Setting) row(results []*fig9Result) Fig9Row {
	row := Fig9Row{
		Cores: s.cores, Customers: s.customers, Commission: s.commission, Queue: s.commission == tpce.Queued,
		Size: tpce.SizeFor(s.customers), Requests: map[string]float64{},
	}
	var tps, all, used []float64
	var commits, conflicts, transactions int64
	for _, r := range results {
		total := int64(0)
		for _, k := range r.Kinds {
			total += k.Count
		}
		transactions += total
		tps = append(tps, float64(r.Executed)/r.Seconds)
		all = append(all, float64(total)/r.Seconds)
		used = append(used, r.CPU/r.Seconds)
		row.Folds.Runs, row.Folds.Conflicts = row.Folds.Runs+r.Folds.Runs, row.Folds.Conflicts+r.Folds.Conflicts
		row.Audits = append(row.Audits, r.Audit)
	}
	row.TPS, row.All, row.CoresUsed = summarize(tps), summarize(all), summarize(used)
	for _, kind := range tpce.Kinds {
		t := transactionOf(kind, results)
		row.Transactions = append(row.Transactions, t)
		if kind.Writes() {
			commits, conflicts = commits+t.Count, conflicts+t.Conflicts
		}
	}
	row.ConflictsPerCommit = fig9Per(conflicts, commits)
	for _, r := range results {
		for kind, n := range r.Requests {
			row.Requests[kind] += fig9Per(n, transactions)
			if kind != oracleRequests {
				row.Storage += fig9Per(n, transactions)
			}
		}
	}
	return row
}

// oracleRequests is how percolator.Stats names the requests that are not the store's.
const oracleRequests = "Oracle"

// transactionOf adds up one type of transaction.
func transactionOf(kind tpce.Kind, results []*fig9Result) Fig9Transaction {
	t := Fig9Transaction{Type: kind}
	latencies := newHistogram()
	for _, r := range results {
		k := r.Kinds[kind]
		if k == nil {
			continue
		}
		t.Count, t.Conflicts = t.Count+k.Count, t.Conflicts+k.Conflicts
		latencies.Merge(hdrhistogram.Import(k.Latencies))
	}
	t.ConflictsPerCommit = fig9Per(t.Conflicts, t.Count)
	if t.Count > 0 {
		milliseconds := func(ns int64) float64 { return float64(ns) / float64(time.Millisecond) }
		t.P50, t.P99 = milliseconds(latencies.ValueAtQuantile(50)), milliseconds(latencies.ValueAtQuantile(99))
		t.Max = milliseconds(latencies.Max())
	}
	return t
}

// fig9Per is 0 where nothing was counted.
func fig9Per(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
