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

// A short benchmark has all three failures and loses nothing. Nothing is said about times.
func TestBenchFig10(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	p := start(t, "fig10", "--short", "--rate", "60", "--accounts", "100", "--outage", "500ms", "--after", "500ms",
		"--steady", "200ms", "-o", "json", "--plot", charts)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var r bench.Fig10Report
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.GoVersion == "" || r.CPUs == 0 || r.Date == "" || r.Emulator == "" || !r.Batching || r.Offered != 60 || r.Saturated != 0 {
		t.Errorf("%+v, %q, %v offered, %v saturated", r.Machine, r.Emulator, r.Offered, r.Saturated)
	}
	var names []string
	for i, e := range r.Events {
		names = append(names, e.Name)
		if e.Begins > e.Ends || e.Ends > e.Until || i > 0 && e.Begins < r.Events[i-1].Until || e.Errors == nil {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(names, bench.Fig10Events()) {
		t.Fatalf("events: %v", names)
	}
	if e := r.Events[0]; e.Refused == 0 {
		t.Errorf("outage: %+v", e)
	}
	if e := r.Events[2]; e.Held == 0 {
		t.Errorf("worker: %+v", e)
	}
	a := r.Audit
	if err := a.Err(); err != nil {
		t.Error(err)
	}
	if a.Acknowledged == 0 || a.Opening != 100*1000 || a.Entries < a.Acknowledged {
		t.Errorf("audit: %+v", a)
	}
	if n := len(r.Buckets); float64(n)*r.Width > r.Events[2].Until+r.Width || float64(n+1)*r.Width < r.Events[2].Until {
		t.Errorf("%d buckets of %v s for %v s", n, r.Width, r.Events[2].Until)
	}
	for _, name := range []string{"rates", "backlog"} {
		if info, err := os.Stat(filepath.Join(charts, "fig10-"+name+".svg")); err != nil || info.Size() == 0 {
			t.Errorf("chart %s: %v", name, err)
		}
	}
}

// One failure alone, as a table, with the rate found first.
func TestBenchFig10Alone(t *testing.T) {
	t.Parallel()
	p := start(t, "fig10", "--short", "--only", "oracle", "--accounts", "100", "--saturate", "3s", "--after", "400ms",
		"--steady", "100ms", "--no-batching")
	code, out := p.wait(t), p.stdout.String()
	if code != exitOK || !strings.Contains(out, "reads not batched") || !strings.Contains(out, "32 writers reach") ||
		!strings.Contains(out, "oracle  ") || strings.Contains(out, "outage:") || !strings.Contains(out, " 0 without a run") {
		t.Errorf("exit status %d, output:\n%s", code, out)
	}
}

func TestBenchFig10Refuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--only", "fire"}, {"--accounts", "1"}, {"--rate", "0.5"}, {"--rate", "-1"}, {"--deadline", "0s"},
		{"--outage", "-1s"}, {"--bucket", "50s"}, {"--lease", "1ms"}, {"-o", "xml"}, {"--emulator", "none"}, {"more"},
	} {
		if code := start(t, append([]string{"fig10"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}
