package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// TestAsOf: every form of --as-of reads what was there then, and what cannot be read is refused.
func TestAsOf(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, cellSchema())
	cell := percolator.Cell{Table: "accounts", Row: "alice", Column: "balance"}
	first := cl.set(map[percolator.Cell]string{cell: "10"})
	cl.set(map[percolator.Cell]string{cell: "3"})
	get := func(asOf string) string {
		return cl.must(cli.ExitOK, "get", "accounts", "alice", "balance", "--raw", "--as-of", asOf).out
	}
	if now := get("1ns ago"); now != "3" {
		t.Errorf("a moment ago: %q, want 3", now)
	}
	if then := get(fmt.Sprint(int64(first))); then != "10" {
		t.Errorf("at the first commit: %q, want 10", then)
	}
	cl.must(cli.ExitNotFound, "get", "accounts", "alice", "--as-of", "10m")
	cl.must(cli.ExitNotFound, "get", "accounts", "alice", "--as-of", time.Now().Add(-48*time.Hour).Format(time.RFC3339)) // nothing was collected yet
	if out := cl.must(cli.ExitOK, "scan", "accounts", "--as-of", fmt.Sprint(int64(first))).out; !strings.Contains(out, " 10\n") {
		t.Errorf("scan --as-of printed %q", out)
	}
	for _, wrong := range []string{"yesterday", "-10m", "0", "2026-01-01", "2026-01-02T15:04:05+24:60", fmt.Sprint(int64(tso.MaxTimestamp)), time.Now().Add(time.Hour).Format(time.RFC3339)} {
		cl.must(cli.ExitUsage, "get", "accounts", "alice", "--as-of="+wrong)
	}
}
