package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A short benchmark delivers what it says, in both forms and as charts. Requests do not depend on
// the machine; nothing is said about times.
func TestBenchFig8(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"fig8", "--goroutines", "1,4", "--rows", "512", "--value", "64",
		"--slice", "2ms", "--duration", "12ms", "--repeat", "2"}
	r := measured(t, append(args, "--plot", charts)...)
	if !strings.Contains(r.Title, "512 rows, values of 64 bytes, slices of 2ms, 2 times 12ms") || r.Emulator != "the emulator in the same process" {
		t.Errorf("%s, on %s", r.Title, r.Emulator)
	}
	var names []string
	for i, m := range r.Table("fig8").Rows {
		if n := m.Value("goroutines"); n != []float64{1, 4}[i%2] {
			t.Errorf("%s: %v goroutines", m.Name, n)
		}
		names = append(names, m.Figure("comparison").Text)
		checkFig8(t, m, r.Table("costs").Row(m.Name))
	}
	if names = slices.Compact(names); !slices.Equal(names, []string{"get", "get-batched", "get-cell", "get-cell-batched",
		"get-view", "multi", "write", "write-limit", "blind", "rows10", "rows10-blind"}) {
		t.Errorf("comparisons %v", names)
	}
	drawn(t, charts, "fig8-reads-ratio", "fig8-reads-throughput", "fig8-writes-ratio", "fig8-writes-throughput")

	p := start(t, append(args, "--only", "get,rows10")...)
	if code := p.wait(t); code != exitOK || strings.Count(p.stdout.String(), "rows10, ") != 4 ||
		strings.Contains(p.stdout.String(), "blind") {
		t.Errorf("exit status %d, output:\n%s", code, p.stdout.String())
	}
}

func checkFig8(t *testing.T, m, costs *report.Row) {
	t.Helper()
	name := m.Figure("comparison").Text
	for _, f := range []string{"ours", "raw", "ratio", "overall"} {
		if !ordered(m.Figure(f)) {
			t.Errorf("%s: %+v", m.Name, m.Figure(f))
		}
	}
	if m.Value("pairs") != 6 || m.Value("by CPU") <= 0 || m.Value("conflicts") != 0 {
		t.Errorf("%+v", m)
	}
	for _, f := range []string{"operations", "CPU", "allocations", "KB"} {
		if costs.Value(f) <= 0 || costs.Value("raw "+f) <= 0 {
			t.Errorf("%s: %+v", m.Name, costs)
		}
	}
	// The client looks at the instance's state once in a while, so there may be a few requests more
	// than the operations need.
	n := costs.Value("operations")
	between := func(what string, got, least, most float64) {
		t.Helper()
		if got < least || got > most+5/n {
			t.Errorf("%s: %v %s for each operation, not between %v and %v", m.Name, got, what, least, most)
		}
	}
	write := strings.HasPrefix(name, "write") || strings.HasPrefix(name, "blind") || strings.HasPrefix(name, "rows10")
	locks, reads := 2., 0.
	switch {
	case strings.HasPrefix(name, "rows10"):
		locks = 11
		between("MutateRows", costs.Value("MutateRows"), 1/n, 9)
	case name == "multi":
		locks, reads = 0, 1
		between("timestamps", costs.Value("Oracle"), 1/n, 1)
	case !write && (strings.HasSuffix(name, "-batched") || name == "get-view"):
		locks = 0
		between("ReadRows", costs.Value("ReadRows"), 1/n, 1)
	case !write:
		locks, reads = 0, 1
	}
	between("CheckAndMutateRow", costs.Value("CheckAndMutateRow"), locks, locks)
	between("ReadRows", costs.Value("ReadRows"), reads, max(reads, 1))
	if write {
		between("timestamps", costs.Value("Oracle"), 1, 8)
	}
	verified := 1.
	if !write {
		verified = n + costs.Value("raw operations")
	}
	if m.Value("verified") < verified || write != (costs.Value("writes of a row") > 0) {
		t.Errorf("%s: %+v, %+v", m.Name, m, costs)
	}
}

func TestBenchFig8Refuses(t *testing.T) {
	t.Parallel()
	refuses(t, "fig8", []string{"--goroutines", "0"}, []string{"--rows", "63"}, []string{"--goroutines", "1024"}, []string{"--value", "7"},
		[]string{"--slice", "0s"}, []string{"--duration", "0s"},
		[]string{"--repeat", "0"}, []string{"--only", "nothing"}, []string{"--emulator", "none"}, []string{"-o", "xml"}, []string{"x"})
}
