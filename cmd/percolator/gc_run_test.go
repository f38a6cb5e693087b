package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// pastOracle gives timestamps of two hours ago.
type pastOracle struct{ oracle tso.Oracle }

func (p pastOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	ts, err := p.oracle.Next(ctx)
	return ts.Add(-2 * time.Hour), err
}

// collectedSchema has the default timing, for which a collection waits.
func collectedSchema() *percolator.Schema {
	schema := cellSchema()
	schema.Timing = percolator.Timing{}
	return schema
}

// setInThePast commits values of one cell, one after another, as if two hours ago.
func (c *cluster) setInThePast(cell percolator.Cell, values ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	client, err := percolator.NewClient(ctx, percolator.Config{Project: c.project, Instance: c.instance, Oracle: pastOracle{c.oracle}}, c.options...)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, value := range values {
		if _, err := client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(cell, []byte(value)) }); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := client.Close(); err != nil {
		c.t.Fatal(err)
	}
}

func TestGC(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testGC)
}

func testGC(t *testing.T) {
	cl := newCluster(t, collectedSchema())
	cl.setInThePast(percolator.Cell{Table: "accounts", Row: "alice", Column: "balance"}, "1", "2", "3")
	s := session{c: cl}
	s.run(cli.ExitOK, "gc", "status")
	s.run(cli.ExitOK, "gc", "status", "-o", "json")
	s.run(cli.ExitOK, "gc", "hold", "ls")
	s.run(cli.ExitOK, "gc", "hold", "ls", "-o", "json")
	s.run(cli.ExitOK, "gc", "hold", "take", "--as-of", "90m", "--ttl", "2h", "--reason", "export\tof June")
	var list []struct{ ID string }
	if err := json.Unmarshal([]byte(s.run(cli.ExitOK, "gc", "hold", "ls", "-o", "json").out), &list); err != nil || len(list) != 1 {
		t.Fatalf("%d holds, %v", len(list), err)
	}
	id := list[0].ID
	s.run(cli.ExitOK, "gc", "hold", "extend", id, "--ttl", "3h")
	s.run(cli.ExitOK, "gc", "run", "--dry-run")
	s.run(cli.ExitOK, "gc", "hold", "release", id, "--dry-run")
	s.runWith(cli.ExitUsage, "n\n", "gc", "hold", "release", id)
	s.run(cli.ExitOK, "gc", "hold", "ls")
	s.run(cli.ExitOK, "gc", "hold", "release", id, "--dry-run", "-o", "json")
	s.run(cli.ExitOK, "gc", "hold", "release", id, "--yes", "-o", "json")
	s.run(cli.ExitNotFound, "gc", "hold", "release", id, "--yes")
	s.run(cli.ExitNotFound, "gc", "hold", "extend", id)
	s.run(cli.ExitOK, "gc", "run", "--dry-run")
	s.runWith(cli.ExitUsage, "", "gc", "run")
	s.run(cli.ExitOK, "gc", "run", "--dry-run", "-o", "json", "--retention", "30m")
	s.run(cli.ExitOK, "gc", "run", "--yes")
	s.run(cli.ExitOK, "gc", "status", "-o", "json")
	s.run(cli.ExitUsage, "gc", "run", "--yes", "--retention", "1s")
	s.replace(`\b1h(30m|0m)\d+s before now`, "1h$1 before now")
	s.replace(`(behind +)\S+,`, "${1}0s,")
	s.replace(`("behindMillis": )[\d.]+`, "${1}0")
	s.compare("gc.txt")

	// A cell that was overwritten two hours ago has one version left, and --as-of ends at the
	// safepoint.
	if out := cl.must(cli.ExitOK, "get", "accounts", "alice", "balance", "--raw", "--as-of", "10m").out; out != "3" {
		t.Errorf("10 minutes ago there was %q, want 3", out)
	}
	if r := cl.must(cli.ExitFailure, "get", "accounts", "alice", "--as-of", "119m"); !strings.Contains(r.stderr, "snapshot too old") {
		t.Errorf("before the safepoint: %q", r.stderr)
	}
}

// TestGCRunKeepsRetention: who runs a cycle by hand does not cut short by mistake what workers
// keep.
func TestGCRunKeepsRetention(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testGCRunKeepsRetention)
}

func testGCRunKeepsRetention(t *testing.T) {
	cl := newCluster(t, collectedSchema())
	cl.must(cli.ExitOK, "gc", "run", "--yes", "--retention", "24h")
	r := cl.must(cli.ExitUsage, "gc", "run", "--yes")
	if !strings.Contains(r.stderr, "--retention 24h0m0s") {
		t.Errorf("printed %q, which does not say what to do", r.stderr)
	}
	before := cl.must(cli.ExitOK, "gc", "status", "-o", "json").out
	cl.must(cli.ExitOK, "gc", "run", "--dry-run") // what is only said needs no agreement
	cl.must(cli.ExitOK, "gc", "run", "--dry-run", "--retention", "1h")
	var was, is struct{ Safepoint tso.Timestamp }
	if json.Unmarshal([]byte(before), &was) != nil || json.Unmarshal([]byte(cl.must(cli.ExitOK, "gc", "status", "-o", "json").out), &is) != nil || was.Safepoint != is.Safepoint || is.Safepoint == 0 {
		t.Errorf("the safepoint moved from %d to %d without a cycle", was.Safepoint, is.Safepoint)
	}
}

func TestGCUsage(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, collectedSchema())
	for _, wrong := range [][]string{
		{"gc", "nonsense"}, {"gc", "status", "x"}, {"gc", "status", "-o", "xml"}, {"gc", "status", "--retention", "0s"}, {"gc", "run", "-o", "xml"}, {"gc", "run", "x"},
		{"gc", "run", "--yes", "--rows-per-second", "-1"},
		{"gc", "hold", "nonsense"}, {"gc", "hold", "ls", "-o", "xml"}, {"gc", "hold", "take", "--ttl", "0s"}, {"gc", "hold", "take", "--ttl", "169h"}, {"gc", "hold", "take", "-o", "xml"},
		{"gc", "hold", "take", "--as-of", "soon"}, {"gc", "hold", "take", "--reason", strings.Repeat("x", 257)}, {"gc", "hold", "extend"}, {"gc", "hold", "extend", "a", "--ttl", "-1h"},
		{"gc", "hold", "extend", "a", "-o", "xml"}, {"gc", "hold", "release"}, {"gc", "hold", "release", "a", "b"},
	} {
		cl.must(cli.ExitUsage, wrong...)
	}
	cl.must(cli.ExitUnavailable, "gc", "status", "--tso", "127.0.0.1:1", "--timeout", "300ms")
}
