package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/clumping"
)

// The simulation is printed in both forms and drawn, and mistakes are refused.
func TestBenchClumping(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"clumping", "--duration", "3s", "--rows", "4096", "--writes", "500", "--workers", "3"}
	r := measured(t, append(args, "--plot", charts)...)
	rows := r.Table("clumping").Rows
	if len(rows) != len(clumping.Variants()) || !strings.HasPrefix(r.Title, "3 workers") {
		t.Fatalf("%+v", r)
	}
	for _, v := range rows {
		if n := len(r.Table("over time: " + v.Name).Rows); n != 3 || v.Value("runs") == 0 || v.Value("mean distance") <= 0 || v.Value("mean distance") > 0.5 {
			t.Errorf("%d samples of %+v", n, v)
		}
	}
	drawn(t, charts, "clumping-distance", "clumping-close", "clumping-least", "clumping-twice")
	p := start(t, args...)
	if code := p.wait(t); code != exitOK || strings.Count(p.stdout.String(), "teleporting") != 5 {
		t.Errorf("exit status %d:\n%s", code, p.stdout.String())
	}
	refuses(t, "clumping", []string{"--workers", "65"}, []string{"--scanners", "32"}, []string{"--rows", "1"}, []string{"--slow", "2"},
		[]string{"--workers", "0"}, []string{"--workers", "64"}, []string{"--run", "0s"}, []string{"--writes", "-1"}, []string{"--tablets", "0"},
		[]string{"--concurrency", "0"}, []string{"--duration", "0s"}, []string{"-o", "xml"}, []string{"x"})
}
