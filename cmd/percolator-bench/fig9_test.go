package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
)

// A short benchmark delivers what it says, in both forms and as charts, and the firms are in order. Nothing is said about times.
func TestBenchFig9(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"fig9", "--short", "--cores", "1", "--customers", "10,120",
		"--terminals", "8", "--duration", "400ms", "--fold-every", "20ms"}
	p := start(t, append(args, "-o", "json", "--plot", charts)...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var r bench.Fig9Report
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.GoVersion == "" || r.CPUs == 0 || r.Date == "" || !r.Together ||
		r.Terminals != 8 || r.Repeat != 1 || len(r.Rows) != 4 {
		t.Fatalf("%+v", r)
	}
	busy := 0 // on a machine with much else to do, a measurement may pass without a transaction
	for i, want := range []struct {
		customers int
		c         tpce.Commission
	}{{120, tpce.Queued}, {120, tpce.Direct}, {10, tpce.Queued}, {10, tpce.Direct}} {
		s := r.Rows[i]
		if s.Cores != 1 || s.Customers != want.customers || s.Commission != want.c || s.Queue != (want.c == tpce.Queued) ||
			len(s.Audits) != 1 {
			t.Fatalf("row %d: %+v", i, s)
		}
		a := s.Audits[0]
		if a.Trades == 0 || a.Settled+a.Rejected != a.Trades || a.Accounts != 2*want.customers || a.Commission == 0 || a.Earned != a.Commission {
			t.Errorf("row %d: %+v", i, a)
		}
		counted := map[tpce.Kind]int64{}
		for _, k := range s.Transactions {
			counted[k.Type] = k.Count
			if k.P50 > k.P99 || k.P99 > k.Max || k.Conflicts < 0 {
				t.Errorf("row %d: %+v", i, k)
			}
		}
		if len(counted) != len(tpce.Kinds) || counted[tpce.TradeOrder] > a.Trades || counted[tpce.TradeResult] > a.Trades {
			t.Errorf("row %d: %v of %d trades", i, counted, a.Trades)
		}
		if s.All.Median > 0 {
			busy++
			if s.Storage <= 0 || s.Requests["Oracle"] <= 0 {
				t.Errorf("row %d: %+v", i, s)
			}
		}
		if !s.Queue && s.Folds != (bench.Fig9Folds{}) {
			t.Errorf("row %d: folds without a queue: %+v", i, s.Folds)
		}
	}
	if busy == 0 {
		t.Error("no transaction ended while it was measured")
	}
	for _, name := range []string{"cores.svg", "cores.png", "customers.svg", "customers.png"} {
		if info, err := os.Stat(filepath.Join(charts, "fig9-"+name)); err != nil || info.Size() == 0 {
			t.Errorf("chart %s: %v", name, err)
		}
	}

	p = start(t, append(args, "--commission", "omitted", "--customers", "10")...)
	code := p.wait(t)
	for _, want := range []string{"trades/s", "commission omitted", "trade-result", "every one of them audited"} {
		if code != exitOK || !strings.Contains(p.stdout.String(), want) {
			t.Errorf("exit status %d, no %q in:\n%s", code, want, p.stdout.String())
		}
	}
}

func TestBenchFig9Refuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--cores", "0"}, {"--cores", "1000000"},
		{"--customers", "0"}, {"--customers", "10,100000000"}, {"--commission", "gifts"},
		{"--commission", "queue,queue,queue,queue"}, {"--terminals", "0"}, {"--duration", "1ms"}, {"--fold-every", "-1s"}, {"--repeat", "0"},
		{"--emulator", "mine"}, {"-o", "xml"},
	} {
		if code := start(t, append([]string{"fig9"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}

// Charts are drawn of whatever was measured, of nothing executed and of a single setting, too.
func TestPlotFig9(t *testing.T) {
	t.Parallel()
	row := func(cores, customers int, c tpce.Commission, tps float64) bench.Fig9Row {
		return bench.Fig9Row{Cores: cores, Customers: customers, Commission: c, TPS: bench.Summary{Median: tps}}
	}
	r := &bench.Fig9Report{Rows: []bench.Fig9Row{
		row(1, 100, tpce.Queued, 10), row(1, 100, tpce.Direct, 5), row(4, 100, tpce.Queued, 30), row(4, 100, tpce.Direct, 6),
		row(4, 10, tpce.Queued, 20), row(4, 10, tpce.Direct, 1),
	}}
	byCores := fig9Lines(r, func(s bench.Fig9Row) (float64, bool) { return float64(s.Cores), s.Customers == 100 })
	byCustomers := fig9Lines(r, func(s bench.Fig9Row) (float64, bool) { return float64(s.Customers), s.Cores == 4 })
	if len(byCores) != 2 || !slices.Equal(byCores[0].X, []float64{1, 4}) ||
		!slices.Equal(byCores[0].Y, []float64{10, 30}) || !slices.Equal(byCores[1].Y, []float64{5, 6}) {
		t.Errorf("%+v", byCores)
	}
	if len(byCustomers) != 2 || !slices.Equal(byCustomers[1].X, []float64{10, 100}) || !slices.Equal(byCustomers[1].Y, []float64{1, 6}) {
		t.Errorf("%+v", byCustomers)
	}
	if l := linear(byCores[0]); !slices.Equal(l.Y, []float64{10, 40}) {
		t.Errorf("%+v", l)
	}
	for _, r := range []*bench.Fig9Report{r, {Rows: r.Rows[:1]}, {Rows: []bench.Fig9Row{row(1, 1, tpce.Omitted, 0)}}} {
		if err := plotFig9(t.TempDir(), r); err != nil {
			t.Error(err)
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
