package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A quick run has every workload on each store, the operations of its mix only, and what a store
// promises beside its figures. With transactions no money is lost, not even when clients are killed
// and answers lost. Nothing is said about times.
func TestBenchYCSB(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	stores := []string{"raw", "ours", "tikv"}
	r := measured(t, "ycsb", "--quick", "--runs", "2", "--duration", "20ms", "--stores", strings.Join(stores, ","), "--plot", charts)
	kinds := map[string]string{"a": "reads updates", "b": "reads updates", "c": "reads", "d": "reads inserts", "e": "scans inserts",
		"f": "reads modifications", "t": "balances transfers"}
	for w, mix := range kinds {
		if rows := r.Table(w).Rows; len(rows) != len(stores) {
			t.Errorf("workload %s has %d stores", w, len(rows))
		}
		for _, store := range stores {
			row := r.Table(w).Row(store)
			if !ordered(row.Figure("operations")) || row.Figure("isolation").Text == "" || row.Figure("atomic").Text == "" {
				t.Errorf("%s on %s: %+v", w, store, row)
			}
			all := 0.
			for _, f := range r.Table("counts").Row(w + ", " + store).Figures {
				if all += f.Value; f.Value > 0 && !strings.Contains(mix, f.Name) {
					t.Errorf("%s on %s: %v %s", w, store, f.Value, f.Name)
				}
			}
			if all < 2*8 {
				t.Errorf("%s on %s: %v operations of 8 callers, twice", w, store, all)
			}
			if w == "t" && store != "raw" && (row.Figure("score").Spread == nil || row.Figure("score").Spread.Max != 0) {
				t.Errorf("%s: %+v", store, row.Figure("score"))
			}
		}
	}
	faults := r.Table("faults")
	for _, row := range faults.Rows {
		if row.Value("clients killed") != 1 || row.Value("answers lost") == 0 || row.Value("operations") == 0 {
			t.Errorf("%+v", row)
		}
	}
	if f := faults.Row("ours").Figure("score"); len(faults.Rows) != 2 || f.Spread == nil || f.Spread.Max != 0 {
		t.Errorf("with faults: %+v", faults)
	}
	drawn(t, charts, "ycsb")
}

func TestBenchYCSBRefuses(t *testing.T) {
	t.Parallel()
	refuses(t, "ycsb", []string{"--only", "g"}, []string{"--stores", "mysql"}, []string{"--accounts", "2"}, []string{"--lose-every", "1"},
		[]string{"--runs", "0"}, []string{"--emulator", "none"}, []string{"more"})
}
