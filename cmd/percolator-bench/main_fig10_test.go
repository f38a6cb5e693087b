package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A short benchmark has all three failures and loses nothing. Nothing is said about times.
func TestBenchFig10(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	r := measured(t, "fig10", "--short", "--rate", "60", "--accounts", "100", "--outage", "500ms", "--after", "500ms",
		"--steady", "200ms", "--plot", charts)
	load := r.Table("load").Row("transfers")
	if r.Emulator == "" || !strings.Contains(r.Title, "reads batched") || load.Value("offered") != 60 || load.Value("saturated") != 0 {
		t.Errorf("%s, on %s, %+v", r.Title, r.Emulator, load)
	}
	var names []string
	rates, work := r.Table("rates").Rows, r.Table("work").Rows
	for i, e := range rates {
		names = append(names, e.Name)
		if e.Value("from") > e.Value("to") || e.Value("to") > e.Value("until") || i > 0 && e.Value("from") < rates[i-1].Value("until") ||
			work[i].Figure("other errors of callers").Text == "" {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(names, []string{"outage", "oracle", "worker"}) {
		t.Fatalf("events: %v", names)
	}
	if work[0].Value("refused") == 0 {
		t.Errorf("outage: %+v", work[0])
	}
	if work[2].Value("commits held when killed") == 0 {
		t.Errorf("worker: %+v", work[2])
	}
	a := r.Table("audit").Row("in one snapshot")
	if a.Value("acknowledged") == 0 || a.Value("balances before") != 100*1000 || a.Value("balances after") != 100*1000 || a.Value("entries") < a.Value("acknowledged") {
		t.Errorf("audit: %+v", a)
	}
	for _, wrong := range []string{"missing", "failed and there", "altered", "without a run", "run twice", "wrong accounts", "wrong counts"} {
		if f := a.Figure(wrong); f.Name == "" || f.Value != 0 {
			t.Errorf("audit: %+v", a)
		}
	}
	series, until := r.Table("series").Rows, rates[2].Value("until")
	if n, width := float64(len(series)), series[0].Value("width"); n*width > until+width || (n+1)*width < until {
		t.Errorf("%v buckets of %v s for %v s", n, width, until)
	}
	drawn(t, charts, "fig10-rates", "fig10-backlog")
}

// One failure alone, as a table, with the rate found first.
func TestBenchFig10Alone(t *testing.T) {
	t.Parallel()
	p := start(t, "fig10", "--short", "--only", "oracle", "--accounts", "100", "--saturate", "3s", "--after", "400ms",
		"--steady", "100ms", "--no-batching")
	code, out := p.wait(t), p.stdout.String()
	if code != exitOK || !strings.Contains(out, "reads not batched") || !strings.Contains(out, "32 writers reach") ||
		!strings.Contains(out, "oracle  ") || strings.Contains(out, "outage") || !strings.Contains(out, "without a run") {
		t.Errorf("exit status %d, output:\n%s", code, out)
	}
}

func TestBenchFig10Refuses(t *testing.T) {
	t.Parallel()
	refuses(t, "fig10", []string{"--only", "fire"}, []string{"--accounts", "1"}, []string{"--rate", "0.5"}, []string{"--rate", "-1"}, []string{"--deadline", "0s"},
		[]string{"--outage", "-1s"}, []string{"--bucket", "50s"}, []string{"--lease", "1ms"}, []string{"-o", "xml"}, []string{"--emulator", "none"}, []string{"more"})
}
