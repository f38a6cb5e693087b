package main

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A short bad day has every fault, and nothing is lost, stuck or failed. Nothing is said about
// times.
func TestBenchBadDay(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	r := measured(t, "bad-day", "--short")
	parts := r.Table("parts").Rows
	kinds := []string{"quiet", "silent", "quiet", "reset", "GOAWAY", "conditional", "conditional", "reads", "reads", "bulk", "bulk", "everything", "everything",
		"full", "slow", "away", "CPU", "callers", "oracle", "quiet"}
	if len(parts) != len(kinds) {
		t.Fatalf("%d parts", len(parts))
	}
	refused := 0.
	for i, p := range parts {
		if !strings.Contains(p.Name, kinds[i]) || p.Figure("failed").Text != "none" {
			t.Errorf("%s: %+v", kinds[i], p)
		}
		refused += p.Value("refused")
	}
	if refused == 0 || parts[0].Value("refused") > 0 {
		t.Errorf("%v requests were refused, %v of them in the quiet time", refused, parts[0].Value("refused"))
	}
	audit := r.Table("audit")
	if a := audit.Row("in one snapshot"); a.Value("acknowledged") == 0 || a.Value("entries") != a.Value("acknowledged") {
		t.Errorf("audit: %+v", a)
	}
	if raw := audit.Row("raw tables"); raw.Value("rows") == 0 || raw.Value("locks")+raw.Value("notifications")+raw.Value("findings") != 0 {
		t.Errorf("raw tables: %+v", raw)
	}
}

func TestBenchBadDayRefuses(t *testing.T) {
	t.Parallel()
	refuses(t, "bad-day", []string{"--only", "fire"}, []string{"--accounts", "1"}, []string{"--rate", "0.5"}, []string{"--fault", "30s"},
		[]string{"--overload", "1h"}, []string{"--seed", "-1"}, []string{"--emulator", "gcloud"}, []string{"more"})
}
