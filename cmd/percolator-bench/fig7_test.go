package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

// A short benchmark delivers what it says, in both forms and as a chart. Nothing is said about times.
func TestBenchFig7(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"fig7", "--documents", "600", "--rates", "100,400", "--duration", "300ms"}
	p := start(t, append(args, "-o", "json", "--plot", charts)...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var r bench.Fig7Report
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.GoVersion == "" || r.CPUs == 0 || r.Date == "" || r.Emulator == "" || r.Documents != 600 || r.Keys != 450 || len(r.Rates) != 2 {
		t.Fatalf("%+v", r)
	}
	if math.Abs(r.Cluster-3.3) > 0.3 || math.Abs(r.Duplicate-0.93) > 0.03 {
		t.Errorf("%.2f documents in a cluster, %.2f not alone", r.Cluster, r.Duplicate)
	}
	for i, want := range []int{30, 120} {
		at := r.Rates[i]
		if at.Rate != float64(want)/0.3 || math.Abs(at.Percent-at.Rate*600) > 1e-6 {
			t.Errorf("rate %d is %v, %v %% an hour", i, at.Rate, at.Percent)
		}
		for _, d := range []bench.Fig7Delivery{at.Observers.Fig7Delivery, at.Batch.Fig7Delivery} {
			n := len(d.Latency.CDF)
			if d.Offered != want || d.Latency.Count != want || d.Differences != 0 || d.Checked < 600 || d.Cluster < 3 || d.Mean <= 0 ||
				n == 0 || d.Latency.CDF[n-1].Milliseconds != d.Latency.Max || len(d.Requests) == 0 {
				t.Errorf("rate %d: %+v", i, d)
			}
		}
		o, b := at.Observers, at.Batch
		if o.Clustered > want || !o.Saturated && (o.Clustered != want || o.Runs < int64(want)) || o.Requests["CheckAndMutateRow"] < o.Runs ||
			o.Saturated && 10*o.Backlog <= want {
			t.Errorf("observers at rate %d: %+v", i, o)
		}
		// A pass reads the repository and what has arrived, and the last one has it all.
		if b.Clustered != want || b.Passes < 1 || b.Read < 601 || b.Read > 601+want || b.Requests["MutateRows"] < 2 || b.Pass.Min <= 0 {
			t.Errorf("batch at rate %d: %+v", i, b)
		}
		if b.Checked != 601+want {
			t.Errorf("%d documents of the batch were checked, there are %d", b.Checked, 601+want)
		}
	}
	for _, ext := range []string{".svg", ".png"} {
		if info, err := os.Stat(filepath.Join(charts, "fig7"+ext)); err != nil || info.Size() == 0 {
			t.Errorf("chart: %v", err)
		}
	}

	p = start(t, "fig7", "--documents", "200", "--rates", "100", "--duration", "100ms", "--scan-interval", "0")
	out := ""
	if code := p.wait(t); code == exitOK {
		out = p.stdout.String()
	}
	for _, want := range []string{"200 documents", "observers, ms", "crossover", ": 0 differences"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the output:\n%s", want, out)
		}
	}
}

func TestBenchFig7Refuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--documents", "99"}, {"--documents", "6000000"}, {"--rates", "0"}, {"--rates", "100,50"}, {"--rates", "50,50"},
		{"--rates", ""}, {"--duration", "0s"}, {"--duration", "2h"}, {"--rates", "1000000", "--duration", "1m"}, {"--scan-interval", "-1s"},
		{"-o", "xml"}, {"--emulator", "paper"}, {"unexpected"},
	} {
		if code := start(t, append([]string{"fig7"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}
