package main

import (
	"encoding/json"
	"slices"

	"github.com/gopercolator/percolator/internal/probe"
)

// checkReport is what a program reads of "check".
type checkReport struct {
	Worst  string
	Checks []checkResult
	Live   struct{ Most, Sent probe.Cost }
}

type checkResult struct {
	Name, Level string
	Findings    []struct{ Level, Saw, Remedy string }
	Sent        probe.Cost
}

// The levels of findings.
const (
	saysOK         = "ok"
	saysNotChecked = "not checked"
	saysWarning    = "warning"
	saysFailed     = "failed"
)

// worstOf is the worst of some levels.
func worstOf(levels ...string) string {
	for _, l := range []string{saysFailed, saysWarning, saysNotChecked} {
		if slices.Contains(levels, l) {
			return l
		}
	}
	return saysOK
}

// checked runs "check" and returns the results by name.
func (c *cluster) checked(code int, args ...string) map[string]checkResult {
	c.t.Helper()
	var out checkReport
	if err := json.Unmarshal([]byte(c.must(code, append([]string{"check", "-o", "json"}, args...)...).out), &out); err != nil {
		c.t.Fatal(err)
	}
	results := map[string]checkResult{}
	levels := []string{}
	for _, r := range out.Checks {
		results[r.Name] = r
		levels = append(levels, r.Level)
		for _, f := range r.Findings {
			remedyExists(c.t, f.Remedy)
		}
	}
	if out.Worst != worstOf(levels...) {
		c.t.Errorf("worst %q of %q", out.Worst, levels)
	}
	return results
}
