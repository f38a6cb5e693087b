package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A short benchmark delivers what it says, in both forms and as charts, and the firms are in order.
// Nothing is said about times.
func TestBenchFig9(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"fig9", "--short", "--cores", "1", "--customers", "10,120",
		"--terminals", "8", "--duration", "400ms", "--fold-every", "20ms"}
	r := measured(t, append(args, "--plot", charts)...)
	rows, audits := r.Table("fig9").Rows, r.Table("audits").Rows
	if !strings.Contains(r.Title, "8 terminals") || !strings.Contains(r.Title, "1 of 400ms each") || r.Emulator != "the emulator in the same process" ||
		len(rows) != 4 || len(audits) != 4 {
		t.Fatalf("%+v", r)
	}
	busy := 0 // on a machine with much else to do, a measurement may pass without a transaction
	for i, want := range []struct {
		customers  float64
		commission string
	}{{120, "queue"}, {120, "row"}, {10, "queue"}, {10, "row"}} {
		s, a := rows[i], audits[i]
		if s.Value("cores") != 1 || s.Value("customers") != want.customers || s.Figure("commission").Text != want.commission || a.Name != s.Name {
			t.Fatalf("row %d: %+v", i, s)
		}
		if a.Value("trades") == 0 || a.Value("settled")+a.Value("rejected") != a.Value("trades") || a.Value("accounts") != 2*want.customers ||
			a.Value("commission") == 0 || a.Value("earned") != a.Value("commission") {
			t.Errorf("row %d: %+v", i, a)
		}
		types := r.Table(s.Name)
		for _, k := range types.Rows {
			if k.Value("p50") > k.Value("p99") || k.Value("p99") > k.Value("max") || k.Value("conflicts") < 0 {
				t.Errorf("row %d: %+v", i, k)
			}
		}
		orders, results := types.Row(string(tpce.TradeOrder)), types.Row(string(tpce.TradeResult))
		if len(types.Rows) != len(tpce.Kinds) || orders.Value("n") > a.Value("trades") || results.Value("n") > a.Value("trades") {
			t.Errorf("row %d: %+v of %v trades", i, types.Rows, a.Value("trades"))
		}
		if s.Value("all transactions/s") > 0 {
			busy++
			if s.Value("storage requests/transaction") <= 0 || r.Table("requests/transaction").Row(s.Name).Value("Oracle") <= 0 {
				t.Errorf("row %d: %+v", i, s)
			}
		}
	}
	if busy == 0 {
		t.Error("no transaction ended while it was measured")
	}
	drawn(t, charts, "fig9-cores", "fig9-customers")

	p := start(t, append(args, "--commission", "omitted", "--customers", "10")...)
	code := p.wait(t)
	for _, want := range []string{"trades/s", "commission omitted", "trade-result", "every one of them audited"} {
		if code != exitOK || !strings.Contains(p.stdout.String(), want) {
			t.Errorf("exit status %d, no %q in:\n%s", code, want, p.stdout.String())
		}
	}
}

func TestBenchFig9Refuses(t *testing.T) {
	t.Parallel()
	refuses(t, "fig9", []string{"--cores", "0"}, []string{"--cores", "1000000"},
		[]string{"--customers", "0"}, []string{"--customers", "10,100000000"}, []string{"--commission", "gifts"},
		[]string{"--commission", "queue,queue,queue,queue"}, []string{"--terminals", "0"}, []string{"--duration", "1ms"}, []string{"--fold-every", "-1s"}, []string{"--repeat", "0"},
		[]string{"--emulator", "mine"}, []string{"-o", "xml"})
}
