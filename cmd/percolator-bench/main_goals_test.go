package main

import (
	"strings"
	"testing"
)

// Each goal has what was measured beside it, and says of itself whether it is met. Nothing is said
// about times; what is counted is asserted.
func TestBenchGoals(t *testing.T) {
	t.Parallel()
	r := measured(t, "goals", "--only", "latency", "--repeat", "1", "--iterations", "2", "--delay", "1ms")
	counted := 0
	goals := r.Table("goals").Rows
	for _, row := range goals {
		f := row.Figure("measured")
		if row.Name == "" || f.Goal == nil || f.Goal.Wanted <= 0 || !ordered(f) {
			t.Fatalf("%+v", row)
		}
		if g := f.Goal; g.Met != (g.AtLeast && f.Value >= g.Wanted || !g.AtLeast && f.Value <= g.Wanted) {
			t.Errorf("%+v: met, or not?", row)
		}
		if strings.HasSuffix(row.Name, "storage requests") {
			if counted++; !f.Goal.Met {
				t.Errorf("%+v: requests do not depend on the machine", row)
			}
		}
	}
	if len(goals) != 8 || counted != 3 {
		t.Errorf("%d goals, %d of them counts", len(goals), counted)
	}
}

func TestBenchGoalsRefuses(t *testing.T) {
	t.Parallel()
	refuses(t, "goals", []string{"--repeat", "0"}, []string{"--rows", "1"}, []string{"--only", "speed"}, []string{"--slice", "0s"}, []string{"--duration", "1ms"},
		[]string{"--delay", "-1s"}, []string{"--emulator", "none"}, []string{"-o", "xml"})
}
