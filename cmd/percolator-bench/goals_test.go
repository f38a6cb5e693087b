package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

// Each goal has what was measured beside it, and says of itself whether it is met. Nothing is said about times; what is counted is
// asserted.
func TestBenchGoals(t *testing.T) {
	t.Parallel()
	args := []string{"goals", "--only", "latency", "--repeat", "1", "--iterations", "2", "--delay", "1ms"}
	p := start(t, append(args, "-o", "json")...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var r bench.GoalsReport
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, g := range r.Goals {
		if g.Name == "" || g.Wanted <= 0 || g.Measured.Min <= 0 || g.Measured.Min > g.Measured.Median || g.Measured.Median > g.Measured.Max {
			t.Errorf("%+v", g)
		}
		if met := g.Measured.Median >= g.Wanted; met == g.Met && !g.AtLeast && g.Measured.Median != g.Wanted || met != g.Met && g.AtLeast {
			t.Errorf("%+v: met, or not?", g)
		}
		if strings.HasSuffix(g.Name, "storage requests") {
			if counted++; !g.Met {
				t.Errorf("%+v: requests do not depend on the machine", g)
			}
		}
	}
	if len(r.Goals) != 8 || counted != 3 {
		t.Errorf("%d goals, %d of them counts", len(r.Goals), counted)
	}
}

func TestBenchGoalsRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--repeat", "0"}, {"--rows", "1"}, {"--only", "speed"}, {"--slice", "0s"}, {"--duration", "1ms"}, {"--delay", "-1s"}, {"--emulator", "none"}, {"-o", "xml"}} {
		if code := start(t, append([]string{"goals"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}
