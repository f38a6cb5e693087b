package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

// A short benchmark delivers what it says, in both forms and as charts. Requests do not depend on the machine; nothing is said about
// times.
func TestBenchFig8(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"fig8", "--goroutines", "1,4", "--rows", "512", "--value", "64",
		"--slice", "2ms", "--duration", "12ms", "--repeat", "2"}
	p := start(t, append(args, "-o", "json", "--plot", charts)...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var r bench.Fig8Report
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.GoVersion == "" || r.CPUs == 0 || r.Date == "" || !r.Together ||
		r.Rows != 512 || r.Value != 64 || r.Repeat != 2 || r.SliceMS != 2 || r.DurationMS != 12 {
		t.Errorf("%+v", r)
	}
	var names []string
	for i, m := range r.Measurements {
		if m.Goroutines != []int{1, 4}[i%2] {
			t.Errorf("%s: %d goroutines", m.Name, m.Goroutines)
		}
		names = append(names, m.Name)
		checkFig8(t, m)
	}
	if names = slices.Compact(names); !slices.Equal(names, bench.Fig8Names()) {
		t.Errorf("comparisons %v", names)
	}
	for _, name := range []string{"reads-ratio", "reads-throughput", "writes-ratio", "writes-throughput"} {
		if info, err := os.Stat(filepath.Join(charts, "fig8-"+name+".svg")); err != nil || info.Size() == 0 {
			t.Errorf("chart %s: %v", name, err)
		}
	}

	p = start(t, append(args, "--only", "get,rows10")...)
	if code := p.wait(t); code != exitOK || strings.Count(p.stdout.String(), "rows10  ") != 6 ||
		strings.Contains(p.stdout.String(), "blind") {
		t.Errorf("exit status %d, output:\n%s", code, p.stdout.String())
	}
}

func checkFig8(t *testing.T, m bench.Fig8Measurement) {
	t.Helper()
	ordered := func(s bench.Summary) bool { return 0 < s.Min && s.Min <= s.Median && s.Median <= s.Max }
	if !ordered(m.OursPerSecond) || !ordered(m.RawPerSecond) || !ordered(m.Ratio) || !ordered(m.Overall) ||
		m.Pairs != 6 || m.ByCPU <= 0 || m.Conflicts != 0 {
		t.Errorf("%+v", m)
	}
	for _, c := range []bench.Fig8Cost{m.OursCost, m.RawCost} {
		if c.Operations == 0 || c.CPU <= 0 || c.Allocs <= 0 || c.Bytes <= 0 {
			t.Errorf("%s: %+v", m.Name, c)
		}
	}
	// The client looks at the instance's state once in a while, so there may be a few requests more than the operations need.
	n := float64(m.OursCost.Operations)
	between := func(what string, got, least, most float64) {
		t.Helper()
		if got < least || got > most+5/n {
			t.Errorf("%s with %d goroutines: %v %s for each operation, not between %v and %v", m.Name, m.Goroutines, got, what, least, most)
		}
	}
	locks, reads := 2., 0.
	switch {
	case m.RowsPerOp == 10:
		locks = 11
		between("MutateRows", m.Requests["MutateRows"], 1/n, 9)
	case !m.Write && m.Batching:
		locks = 0
		between("ReadRows", m.Requests["ReadRows"], 1/n, 1)
	case !m.Write:
		locks, reads = 0, 1
	}
	between("CheckAndMutateRow", m.Requests["CheckAndMutateRow"], locks, locks)
	between("ReadRows", m.Requests["ReadRows"], reads, max(reads, 1))
	if m.Write {
		between("timestamps", m.Requests["Oracle"], 1, 8)
	}
	verified := int64(1)
	if !m.Write {
		verified = m.OursCost.Operations + m.RawCost.Operations
	}
	if m.Verified < verified || m.Write != (m.WritesPerRow > 0) || m.Write != (m.MostWrites > 0) {
		t.Errorf("%s: %d values verified, %v and %d writes of a row", m.Name, m.Verified, m.WritesPerRow, m.MostWrites)
	}
}

func TestBenchFig8Refuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--goroutines", "0"}, {"--rows", "63"}, {"--goroutines", "1024"}, {"--value", "7"},
		{"--slice", "0s"}, {"--duration", "0s"},
		{"--repeat", "0"}, {"--only", "nothing"}, {"--emulator", "none"}, {"-o", "xml"}, {"x"},
	} {
		if code := start(t, append([]string{"fig8"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}
