package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

// A short benchmark delivers what it says, in both forms and as charts. Nothing is said about times.
func TestBenchObservers(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"observers", "--duration", "2s", "--writers", "4,8", "--hops", "3", "--chains", "40",
		"--clean", "600", "--dirty", "7", "--rounds", "2", "--workers", "2", "--idle", "1ms"}
	p := start(t, append(args, "-o", "json", "--plot", charts)...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var r bench.ObserversReport
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.GoVersion == "" || r.CPUs == 0 || r.Date == "" {
		t.Errorf("machine: %+v", r.Machine)
	}
	sane := func(what string, s bench.Spread, least int) {
		t.Helper()
		n := len(s.CDF)
		if s.Count < least || !(s.P50 <= s.P90 && s.P90 <= s.P99 && s.P99 <= s.Max) ||
			n < 2 || s.CDF[n-1] != (bench.Point{Milliseconds: s.Max, Share: 1}) {
			t.Errorf("%s: %+v", what, s)
		}
	}
	in := r.InProcess
	if len(in.Saturated) != 2 || in.Saturated[1].Writers != 8 || in.Offered <= 0 || in.Delivered <= 0 {
		t.Errorf("in one process: %+v", in)
	}
	sane("in one process", in.Latency, 1)
	if in.Timestamps.Count != in.Latency.Count {
		t.Errorf("%d pairs of timestamps for %d runs", in.Timestamps.Count, in.Latency.Count)
	}
	if len(r.Chain) != 2 || !r.Chain[0].Dispatch || r.Chain[1].Dispatch {
		t.Fatalf("chain: %+v", r.Chain)
	}
	for _, c := range r.Chain {
		if len(c.Hops) != 3 {
			t.Errorf("%d hops", len(c.Hops))
		}
		for _, h := range append(c.Hops, c.Whole) {
			sane("chain", h, 1)
		}
	}
	if r.Processes == nil {
		t.Fatal("nothing was measured across processes")
	}
	if p := r.Processes; p.Clean != 600 || p.Dirty != 7 || p.Workers != 2 || p.Pass <= 0 || p.Lost != 0 || len(p.Rounds) != 2 || p.Latency.Count != 14 || p.Hinted+p.Found < 14 {
		t.Errorf("across processes: %+v", p)
	}
	sane("across processes", r.Processes.Latency, 14)
	for _, name := range []string{"in-process", "chain", "across-processes"} {
		if info, err := os.Stat(filepath.Join(charts, "observers-"+name+".svg")); err != nil || info.Size() == 0 {
			t.Errorf("chart %s: %v", name, err)
		}
	}

	p = start(t, append(args, "--clean", "0")...)
	if code := p.wait(t); code != exitOK || !strings.Contains(p.stdout.String(), "by timestamps") || strings.Contains(p.stdout.String(), "across processes") {
		t.Errorf("exit status %d, output:\n%s", code, p.stdout.String())
	}
}

func TestBenchObserversRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--duration", "0s"}, {"--writers", "0"}, {"--hops", "0"}, {"--chains", "0"}, {"--clean", "-1"}, {"--dirty", "0"},
		{"--clean", "10", "--dirty", "11"}, {"--workers", "0"}, {"--rounds", "0"}, {"--idle", "-1s"}, {"--scan-interval", "-1s"}, {"-o", "xml"},
	} {
		if code := start(t, append([]string{"observers"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}
