package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A short benchmark delivers what it says, in both forms and as charts. Nothing is said about
// times, but requests are exact.
func TestBenchScale(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	r := measured(t, "scale", "--rows", "150,700", "--versions", "1,6", "--version-rows", "120", "--changes", "30,90", "--notifications", "1,300", "--samples", "6", "--repeat", "2", "--plot", charts)
	if r.Emulator == "" || r.Table("memory").Row("all tables, full").Value("in this process") <= 0 {
		t.Fatalf("%+v", r)
	}
	for _, want := range []struct {
		name       string
		operations []string
		sizes      []float64
	}{
		{"rows", []string{"search", "wait idle", "get", "write", "scan 100", "index", "dead lock", "scan all", "collect"}, []float64{150, 700}},
		{"versions", []string{"search", "wait idle", "get", "write", "scan 100", "dead lock", "scan all", "collect"}, []float64{1, 6}},
		{"changes", []string{"search", "wait idle", "get", "write", "collect"}, []float64{30, 90}},
		{"notifications", []string{"get", "write", "search a page", "search"}, []float64{1, 300}},
	} {
		for _, journal := range []string{"", ", journal off"} {
			var names []string
			for _, op := range r.Table("growth with " + want.name + journal).Rows {
				names = append(names, op.Name)
				checkScale(t, r, want.name, journal, op, want.sizes)
			}
			s := r.Table("tables").Row(want.name + journal)
			if !slices.Equal(names, want.operations) || s.Value("answers checked") == 0 || s.Value("cells filled in") == 0 ||
				len(r.Table(want.name+journal).Rows) != len(want.operations)*len(want.sizes) {
				t.Errorf("sweep %s: %q; %+v", want.name+journal, names, s)
			}
			drawn(t, charts, "scale-"+want.name+strings.ReplaceAll(journal, ", journal ", "-"))
		}
	}
	for _, c := range []struct {
		table, row string
		rows       float64 // that are read
		removed    float64 // a value and a record of each former version
	}{
		{"rows", "collect, 150", 150, 2 * 150},
		{"rows", "collect, 700", 150, 2 * 150},
		{"rows, journal off", "collect, 150", 150, 2 * 150},
		{"rows, journal off", "collect, 700", 700, 2 * 150},
		{"changes", "collect, 30", 30, 2 * 30},
		{"changes", "collect, 90", 90, 2 * 90},
		{"changes, journal off", "collect, 30", 100, 2 * 30},
		{"versions", "collect, 6", 120, 2 * (6*120 + 5*12)}, // in 12 rows a second column has versions
		{"versions, journal off", "collect, 6", 120, 2 * (6*120 + 5*12)},
	} {
		if got := r.Table(c.table).Row(c.row); got.Value("rows read") != c.rows || got.Value("versions removed") != c.removed {
			t.Errorf("%s: %s read %v rows and removed %v cells, want %v and %v",
				c.table, c.row, got.Value("rows read"), got.Value("versions removed"), c.rows, c.removed)
		}
	}
	p := start(t, "scale", "--rows", "0", "--versions", "0", "--changes", "0", "--notifications", "3,20",
		"--samples", "3", "--repeat", "1", "--journal", "on")
	if code := p.wait(t); code != exitOK || !strings.Contains(p.stdout.String(), "× smallest") || strings.Contains(p.stdout.String(), "collect,") ||
		strings.Contains(p.stdout.String(), "journal off") {
		t.Errorf("exit status %d, output:\n%s", code, p.stdout.String())
	}
}

// checkScale checks what does not depend on the machine.
func checkScale(t *testing.T, r *report.Report, sweep, journal string, op *report.Row, sizes []float64) {
	t.Helper()
	exact := map[string]map[string]float64{
		"get":       {"Oracle": 1, "ReadRows": 1},
		"write":     {"Oracle": 2, "CheckAndMutateRow": 2},
		"index":     {"Oracle": 1, "ReadRows": 1},
		"dead lock": {"Oracle": 2, "CheckAndMutateRow": 1},
	}[op.Name]
	if op.Figure("what").Text == "" {
		t.Fatalf("%s: %+v", sweep, op)
	}
	for i, size := range sizes {
		p := r.Table(sweep + journal).Row(fmt.Sprintf("%s, %.0f", op.Name, size))
		ratio := p.Figure("× smallest")
		if p.Value(sweep) != size || p.Value("n") == 0 || !ordered(p.Figure("time")) || !ordered(ratio) {
			t.Errorf("%s, %s: %+v", sweep, op.Name, p)
		}
		if i == 0 && (ratio.Value != 1 || *ratio.Spread != report.Spread{Min: 1, Max: 1}) {
			t.Errorf("%s, %s: the smallest is %+v of itself", sweep, op.Name, ratio)
		}
		for kind, n := range exact {
			if p.Value(kind) != n {
				t.Errorf("%s, %s at %v: %+v, want %v", sweep, op.Name, size, p, exact)
			}
		}
	}
}

func TestBenchScaleRefuses(t *testing.T) {
	t.Parallel()
	refuses(t, "scale", []string{"--rows", "99"}, []string{"--rows", "1000,1000"}, []string{"--rows", "2000,1000"}, []string{"--rows", "100,0"}, []string{"--versions", "1001"},
		[]string{"--notifications", "-1"}, []string{"--rows", "0", "--versions", "0", "--changes", "0", "--notifications", "0"}, []string{"--journal", "no"}, []string{"--samples", "0"}, []string{"--repeat", "0"}, []string{"--value", "0"},
		[]string{"--versions", "1000", "--version-rows", "100000"}, []string{"--version-rows", "1"}, []string{"--emulator", "x"}, []string{"-o", "xml"}, []string{"x"})
}
