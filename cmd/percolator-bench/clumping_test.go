package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/clumping"
)

// The simulation is printed in both forms and drawn, and mistakes are refused.
func TestBenchClumping(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"clumping", "--duration", "3s", "--rows", "4096", "--writes", "500", "--workers", "3"}
	p := start(t, append(args, "-o", "json", "--plot", charts)...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d: %s", code, p.stderr.String())
	}
	var r bench.ClumpingReport
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Variants) != len(clumping.Variants()) || r.Config.Workers != 3 || r.GoVersion == "" {
		t.Fatalf("%+v", r)
	}
	for _, v := range r.Variants {
		if len(v.Samples) != 3 || v.Runs == 0 || v.Mean <= 0 || v.Mean > 0.5 {
			t.Errorf("%s: %+v", v.Name, v)
		}
	}
	for _, name := range []string{"distance", "close", "least", "twice"} {
		if _, err := os.Stat(filepath.Join(charts, "clumping-"+name+".svg")); err != nil {
			t.Error(err)
		}
	}
	p = start(t, args...)
	if code := p.wait(t); code != exitOK || strings.Count(p.stdout.String(), "teleporting") != 5 {
		t.Errorf("exit status %d:\n%s", code, p.stdout.String())
	}
	for _, wrong := range [][]string{{"--workers", "65"}, {"--scanners", "32"}, {"--rows", "1"}, {"--slow", "2"}, {"--duration", "0s"}, {"-o", "xml"}, {"x"}} {
		p = start(t, append([]string{"clumping"}, wrong...)...)
		if code := p.wait(t); code != exitUsage {
			t.Errorf("%q: exit status %d", wrong, code)
		}
	}
}
