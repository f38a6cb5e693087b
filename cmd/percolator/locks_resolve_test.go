package main

import (
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/percolator"
)

func TestLocksSession(t *testing.T) {
	t.Parallel()
	cl := troubled(t)
	cl.plant("accounts", "Zoe", "lock", "balance", 0, "rubbish")
	s := session{c: cl}
	s.run(cli.ExitOK, "locks", "ls", "--scan")
	s.run(cli.ExitOK, "locks", "ls") // no entry of the journal names Zoe
	s.run(cli.ExitOK, "locks", "ls", "accounts", "--limit", "1")
	s.run(cli.ExitOK, "locks", "ls", "--scan", "--older-than", "1h", "-o", "json")
	s.run(cli.ExitOK, "locks", "ls", "--limit", "1", "-o", "json", "accounts")
	s.run(cli.ExitOK, "locks", "ls", "people", "people.mail")
	s.run(cli.ExitOK, "locks", "resolve", "accounts", "Joe", "--dry-run")
	s.runWith(cli.ExitUsage, "n\n", "locks", "resolve", "accounts", "Joe")
	s.runWith(cli.ExitOK, "y\n", "locks", "resolve", "accounts", "Joe")
	s.run(cli.ExitOK, "locks", "resolve", "accounts", "Ann", "--yes", "-o", "json")
	s.run(cli.ExitOK, "row", "accounts", "Ann")
	s.run(cli.ExitOK, "row", "accounts", "Eve")
	s.run(cli.ExitFindings, "locks", "resolve", "accounts", "--yes", "--scan")
	s.run(cli.ExitOK, "locks", "resolve", "people")
	s.run(cli.ExitUsage, "locks", "ls", "unknown")
	s.run(cli.ExitUsage, "locks", "resolve", "unknown", "--yes")
	s.run(cli.ExitUsage, "locks", "ls", "--limit", "0")
	s.run(cli.ExitUsage, "locks", "ls", "--older-than", "-1s")
	s.run(cli.ExitUsage, "locks", "resolve", "accounts", "Joe", "balance")
	s.run(cli.ExitUsage, "locks", "resolve", "-o", "yaml")
	s.compare("locks.txt")

	for row, want := range map[string]string{"Bob": "$3", "Joe": "$3", "Ann": "$5"} {
		if got := cl.must(cli.ExitOK, "get", "accounts", row, "balance", "--raw").out; got != want {
			t.Errorf("%s has %q, want %q", row, got, want)
		}
	}
}

// TestLocksResolveMany: several batches, all of them counted, in the order of rows.
func TestLocksResolveMany(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "accounts"}}})
	var cells []percolator.Cell
	for i := range 2*look.ResolvedAtOnce + 1 {
		cells = append(cells, accounts(string([]byte{'a' + byte(i/26/26), 'a' + byte(i/26%26), 'a' + byte(i%26)})))
	}
	cl.die(beforeCommit, "x", cells...)
	s := session{c: cl}
	r := s.run(cli.ExitOK, "locks", "resolve", "--yes")
	if want := "513 rolled back\n"; r.out[len(r.out)-len("0 rolled forward, "+want):] != "0 rolled forward, "+want {
		t.Errorf("%s", r.out[max(0, len(r.out)-200):])
	}
	if r := s.run(cli.ExitOK, "locks", "ls"); r.out != "no locks\n" {
		t.Errorf("%s", r.out)
	}
}
