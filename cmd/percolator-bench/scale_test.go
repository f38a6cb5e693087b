package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

// A short benchmark delivers what it says, in both forms and as charts. Nothing is said about times, but requests are exact.
func TestBenchScale(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"scale", "--rows", "150,700", "--versions", "1,6", "--version-rows", "120", "--notifications", "1,300", "--samples", "6", "--repeat", "2"}
	p := start(t, append(args, "-o", "json", "--plot", charts)...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d: %s", code, p.stderr.String())
	}
	var r bench.ScaleReport
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.GoVersion == "" || r.Emulator == "" || r.HeapMB <= 0 || len(r.Sweeps) != 3 {
		t.Fatalf("%+v", r)
	}
	for i, want := range []struct {
		name       string
		operations string
	}{
		{"rows", "get write scan 100 index dead lock scan all search collect"},
		{"versions", "get write scan 100 dead lock scan all search collect"},
		{"notifications", "get write search a page search"},
	} {
		s := r.Sweeps[i]
		var names []string
		for _, op := range s.Operations {
			names = append(names, op.Name)
			checkScale(t, s, op)
		}
		if got := strings.Join(names, " "); s.Name != want.name || got != want.operations || s.Checked == 0 || s.Filled == 0 {
			t.Errorf("sweep %s: %s; %d checked, %d filled", s.Name, got, s.Checked, s.Filled)
		}
		if _, err := os.Stat(filepath.Join(charts, "scale-"+s.Name+".svg")); err != nil {
			t.Error(err)
		}
	}
	if got := r.Sweeps[0].Operations[7].Points; got[0].Removed != 0 || got[1].RowsRead != 700 {
		t.Errorf("collection of one version: %+v", got)
	}
	if got := r.Sweeps[1].Operations[6].Points[1].Removed; got < 5*2*120 {
		t.Errorf("%d versions collected", got)
	}
	p = start(t, "scale", "--rows", "0", "--versions", "0", "--notifications", "3,20", "--samples", "3", "--repeat", "1")
	if code := p.wait(t); code != exitOK || !strings.Contains(p.stdout.String(), "× smallest") || strings.Contains(p.stdout.String(), "collect") {
		t.Errorf("exit status %d, output:\n%s", code, p.stdout.String())
	}
}

// checkScale checks what does not depend on the machine.
func checkScale(t *testing.T, s bench.ScaleSweep, op bench.ScaleOperation) {
	t.Helper()
	exact := map[string]map[string]float64{
		"get":       {"Oracle": 1, "ReadRows": 1},
		"write":     {"Oracle": 2, "CheckAndMutateRow": 2},
		"index":     {"Oracle": 1, "ReadRows": 1},
		"dead lock": {"Oracle": 2, "CheckAndMutateRow": 1},
	}[op.Name]
	if len(op.Points) != len(s.Sizes) || op.What == "" {
		t.Fatalf("%s, %s: %d points for %v", s.Name, op.Name, len(op.Points), s.Sizes)
	}
	for i, p := range op.Points {
		if p.Size != s.Sizes[i] || p.Count == 0 || p.US.Min <= 0 || p.US.Min > p.US.Median || p.US.Median > p.US.Max || p.Ratio.Min <= 0 {
			t.Errorf("%s, %s: %+v", s.Name, op.Name, p)
		}
		if i == 0 && p.Ratio != (bench.Summary{Min: 1, Median: 1, Max: 1}) {
			t.Errorf("%s, %s: the smallest is %+v of itself", s.Name, op.Name, p.Ratio)
		}
		for kind, n := range exact {
			if p.Requests[kind] != n {
				t.Errorf("%s, %s at %d: %v, want %v", s.Name, op.Name, p.Size, p.Requests, exact)
			}
		}
	}
}

func TestBenchScaleRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--rows", "99"}, {"--rows", "1000,1000"}, {"--rows", "2000,1000"}, {"--rows", "100,0"}, {"--versions", "1001"},
		{"--notifications", "-1"}, {"--rows", "0", "--versions", "0", "--notifications", "0"}, {"--samples", "0"}, {"--repeat", "0"}, {"--value", "0"},
		{"--versions", "1000", "--version-rows", "100000"}, {"--version-rows", "1"}, {"--emulator", "x"}, {"-o", "xml"}, {"x"},
	} {
		if code := start(t, append([]string{"scale"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}
