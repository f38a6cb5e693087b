package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A short benchmark delivers what it says, in both forms and as a chart: the counts agree with each
// other, and those that do not depend on what meets by chance are what the definition of the
// variants says. Nothing is said about times.
func TestBenchOps(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	r := measured(t, "ops", "--pages", "8", "--changed", "2", "--delay", "0s", "--collapse", "10ms", "--plot", charts)
	if r.Emulator == "" || !strings.Contains(r.Title, "8 pages of which 2 change") || !strings.Contains(r.Title, "128 runs at once") {
		t.Fatalf("%s, on %s", r.Title, r.Emulator)
	}
	variants := []string{"neither", "prefetch", "batching", "batching and prefetch"}
	if !slices.EqualFunc(r.Table("load").Rows, variants, func(row *report.Row, name string) bool { return row.Name == name }) {
		t.Errorf("%+v", r.Table("load"))
	}
	for _, v := range variants {
		checkOpsPhase(t, r, "load", v, 8)
		checkOpsPhase(t, r, "changed pages", v, 2)
	}
	load, rerun := r.Table("neither by both").Row("load"), r.Table("neither by both").Row("changed pages")
	if load.Value("ReadRows") <= 1 || load.Value("by key") <= 1 || load.Value("a run") <= 1 || rerun.Value("by key") <= 1 {
		t.Errorf("batching and prefetch save nothing: %+v, %+v", load, rerun)
	}
	drawn(t, charts, "ops")

	p := start(t, "ops", "--pages", "2", "--changed", "1", "--delay", "0s", "--collapse", "1ms", "--concurrency", "4", "--detail")
	code, out := p.wait(t), p.stdout.String()
	if code != exitOK || !strings.Contains(out, "each index says what its pages say") || !strings.Contains(out, "doc:hash") {
		t.Errorf("exit status %d, output:\n%s", code, out)
	}
}

func checkOpsPhase(t *testing.T, r *report.Report, phase, variant string, pages float64) {
	t.Helper()
	all := r.Table("counts").Row(phase + ": " + variant)
	reads := 0.
	for _, kind := range []string{"get", "scan", "check", "look", "search", "own"} {
		reads += all.Value(kind)
	}
	byOrigin := 0.
	for _, o := range r.Table("reads of " + phase + ", " + variant).Rows {
		byOrigin += o.Value("requests")
		// What a scan has to read again, as a lock was in its way, it reads row by row in all
		// variants.
		scanned := strings.HasPrefix(o.Name, "get accounts") || strings.HasPrefix(o.Name, "get passing")
		if !strings.HasPrefix(o.Name, "get ") || strings.Contains(o.Name, "ack") || scanned {
			continue
		}
		if !strings.Contains(variant, "batching") && o.Value("rows") != o.Value("requests") {
			t.Errorf("without batching: %+v", o)
		}
		if !strings.Contains(variant, "prefetch") && o.Value("cells") != o.Value("rows") {
			t.Errorf("without prefetch: %+v", o)
		}
	}
	if reads != all.Value("ReadRows") || byOrigin != reads || all.Value("get") == 0 {
		t.Errorf("%s, %s: %v ReadRows are %v, or %v by origin", phase, variant, all.Value("ReadRows"), reads, byOrigin)
	}
	if processed := r.Table("runs of " + phase + ", " + variant).Row("process").Value("runs a page"); all.Value("pages") != pages || processed <= 0 || processed > 1 || // several pages are one run
		all.Value("attempts") < all.Value("runs") || all.Value("oracle") == 0 || all.Value("rows read") == 0 ||
		all.Value("CheckAndMutateRow") < 2*pages || all.Value("MutateRows") == 0 {
		t.Errorf("%v pages, %v processed each: %+v", pages, processed, all)
	}
}

func TestBenchOpsRefuses(t *testing.T) {
	t.Parallel()
	refuses(t, "ops", []string{"--pages", "0"}, []string{"--changed", "-1"}, []string{"--pages", "3", "--changed", "4"}, []string{"--delay", "-1ms"}, []string{"--delay", "2s"},
		[]string{"--collapse", "-1s"}, []string{"--collapse", "2m"}, []string{"--concurrency", "0"}, []string{"--emulator", "real"}, []string{"-o", "xml"})
}
