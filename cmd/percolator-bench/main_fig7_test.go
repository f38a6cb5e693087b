package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A short benchmark delivers what it says, in both forms and as a chart. Nothing is said about
// times.
func TestBenchFig7(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	r := measured(t, "fig7", "--documents", "600", "--rates", "100,400", "--duration", "300ms", "--plot", charts)
	repository := r.Table("repository").Row("before")
	if r.Emulator == "" || repository.Value("documents") != 600 || !strings.Contains(r.Title, "three keys of 450 each") || len(r.Table("observers").Rows) != 2 {
		t.Fatalf("%+v", r)
	}
	if math.Abs(repository.Value("documents in a cluster")-3.3) > 0.3 || math.Abs(repository.Value("not alone")-93) > 3 {
		t.Errorf("%+v", repository)
	}
	for i, want := range []float64{30, 120} {
		for _, side := range []string{"observers", "batch"} {
			d := r.Table(side).Rows[i]
			w := r.Table(side + ", work").Row(d.Name)
			rate := d.Value("arrivals")
			if rate != want/0.3 || math.Abs(d.Value("of the repository")-rate*600) > 1e-6 {
				t.Errorf("rate %d is %v, %v %% an hour", i, rate, d.Value("of the repository"))
			}
			if d.Value("n") != want || w.Value("differences") != 0 || w.Value("checked") < 600 || w.Value("documents in a cluster") < 3 || d.Value("mean") <= 0 ||
				d.Value("p50") > d.Value("p90") || d.Value("p90") > d.Value("max") || w.Value("requests") == 0 {
				t.Errorf("rate %d: %+v, %+v", i, d, w)
			}
		}
		o, w := r.Table("observers").Rows[i], r.Table("observers, work").Rows[i]
		saturated := o.Figure("saturated").Text != ""
		if o.Value("clustered") > want || !saturated && (o.Value("clustered") != want || w.Value("runs") < want) || w.Value("CheckAndMutateRow") < w.Value("runs") ||
			saturated && 10*w.Value("backlog") <= want {
			t.Errorf("observers at rate %d: %+v, %+v", i, o, w)
		}
		// A pass reads the repository and what has arrived, and the last one has it all.
		b, w := r.Table("batch").Rows[i], r.Table("batch, work").Rows[i]
		if b.Value("clustered") != want || w.Value("passes") < 1 || w.Value("read each") < 601 || w.Value("read each") > 601+want || w.Value("MutateRows") < 2 ||
			!ordered(w.Figure("pass")) {
			t.Errorf("batch at rate %d: %+v, %+v", i, b, w)
		}
		if w.Value("checked") != 601+want {
			t.Errorf("%v documents of the batch were checked, there are %v", w.Value("checked"), 601+want)
		}
	}
	drawn(t, charts, "fig7")

	p := start(t, "fig7", "--documents", "200", "--rates", "100", "--duration", "100ms", "--scan-interval", "0")
	out := ""
	if code := p.wait(t); code == exitOK {
		out = p.stdout.String()
	}
	for _, want := range []string{"200 documents", "observers", "crossover", ": 0 differences"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the output:\n%s", want, out)
		}
	}
}

func TestBenchFig7Refuses(t *testing.T) {
	t.Parallel()
	refuses(t, "fig7", []string{"--documents", "99"}, []string{"--documents", "6000000"}, []string{"--rates", "0"}, []string{"--rates", "100,50"}, []string{"--rates", "50,50"},
		[]string{"--rates", ""}, []string{"--duration", "0s"}, []string{"--duration", "2h"}, []string{"--rates", "1000000", "--duration", "1m"}, []string{"--scan-interval", "-1s"},
		[]string{"-o", "xml"}, []string{"--emulator", "paper"}, []string{"unexpected"})
}
