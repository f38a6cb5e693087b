package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

// A short benchmark delivers what it says, in both forms and as a chart: the counts agree with each other, and those that do not
// depend on what meets by chance are what the definition of the variants says. Nothing is said about times.
func TestBenchOps(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"ops", "--pages", "8", "--changed", "2", "--delay", "0s", "--collapse", "10ms"}
	p := start(t, append(args, "-o", "json", "--plot", charts)...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var r bench.OpsReport
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.GoVersion == "" || r.Emulator == "" || r.Pages != 8 || r.Changed != 2 || len(r.Variants) != 4 || r.Concurrency != 128 {
		t.Fatalf("%+v", r)
	}
	for i, v := range r.Variants {
		if v.Batching != (i >= 2) || v.Prefetch != (i%2 == 1) || v.Differences != 0 {
			t.Errorf("variant %d: batching %v, prefetch %v, %d differences", i, v.Batching, v.Prefetch, v.Differences)
		}
		checkOpsPhase(t, v, v.Load, 8)
		checkOpsPhase(t, v, v.Rerun, 2)
	}
	if r.Load.ReadRows <= 1 || r.Load.Gets <= 1 || r.Load.PerRun <= 1 || r.Rerun.Gets <= 1 {
		t.Errorf("batching and prefetch save nothing: %+v, %+v", r.Load, r.Rerun)
	}
	for _, ext := range []string{".svg", ".png"} {
		if info, err := os.Stat(filepath.Join(charts, "ops"+ext)); err != nil || info.Size() == 0 {
			t.Errorf("chart: %v", err)
		}
	}

	p = start(t, "ops", "--pages", "2", "--changed", "1", "--delay", "0s", "--collapse", "1ms", "--concurrency", "4", "--detail")
	code, out := p.wait(t), p.stdout.String()
	if code != exitOK || !strings.Contains(out, "each index says what its pages say") || !strings.Contains(out, "doc:hash") {
		t.Errorf("exit status %d, output:\n%s", code, out)
	}
}

func checkOpsPhase(t *testing.T, v bench.OpsVariant, p bench.OpsPhase, pages int) {
	t.Helper()
	reads, processed := 0, p.Runs["process"]
	for _, n := range p.Reads {
		reads += n
	}
	byOrigin := 0
	for _, o := range p.Origins {
		byOrigin += o.Requests
		if o.Kind != "get" || strings.Contains(o.Columns, "ack") {
			continue
		}
		if !v.Batching && o.Rows != o.Requests {
			t.Errorf("without batching %d requests for %s of %s name %d rows", o.Requests, o.Columns, o.Table, o.Rows)
		}
		if !v.Prefetch && o.Cells != o.Rows {
			t.Errorf("without prefetch requests for %s of %s name %d cells of %d rows", o.Columns, o.Table, o.Cells, o.Rows)
		}
	}
	if reads != p.Requests["ReadRows"] || byOrigin != reads || p.Reads["get"] == 0 {
		t.Errorf("%d ReadRows are %v, or %d by origin", p.Requests["ReadRows"], p.Reads, byOrigin)
	}
	if p.Pages != pages || processed != int64(pages) || p.Attempts < p.TotalRuns() || p.Oracle == 0 || p.RowsRead == 0 ||
		p.Requests["CheckAndMutateRow"] < 2*pages || p.Requests["MutateRows"] == 0 {
		t.Errorf("%d pages: %+v", pages, p)
	}
}

func TestBenchOpsRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--pages", "0"}, {"--changed", "-1"}, {"--pages", "3", "--changed", "4"}, {"--delay", "-1ms"}, {"--delay", "2s"},
		{"--collapse", "-1s"}, {"--collapse", "2m"}, {"--concurrency", "0"}, {"--emulator", "real"}, {"-o", "xml"},
	} {
		if code := start(t, append([]string{"ops"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}
