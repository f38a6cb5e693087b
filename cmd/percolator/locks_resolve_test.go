package main

import (
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

func TestLocksSession(t *testing.T) {
	t.Parallel()
	cl := troubled(t)
	cl.plant("accounts", "Zoe", "lock", "balance", 0, "rubbish")
	s := session{c: cl}
	s.run(exitOK, "locks", "ls", "--scan")
	s.run(exitOK, "locks", "ls") // no entry of the journal names Zoe
	s.run(exitOK, "locks", "ls", "accounts", "--limit", "1")
	s.run(exitOK, "locks", "ls", "--scan", "--older-than", "1h", "-o", "json")
	s.run(exitOK, "locks", "ls", "--limit", "1", "-o", "json", "accounts")
	s.run(exitOK, "locks", "ls", "people", "people.mail")
	s.run(exitOK, "locks", "resolve", "accounts", "Joe", "--dry-run")
	s.runWith(exitUsage, "n\n", "locks", "resolve", "accounts", "Joe")
	s.runWith(exitOK, "y\n", "locks", "resolve", "accounts", "Joe")
	s.run(exitOK, "locks", "resolve", "accounts", "Ann", "--yes", "-o", "json")
	s.run(exitOK, "row", "accounts", "Ann")
	s.run(exitOK, "row", "accounts", "Eve")
	s.run(exitFindings, "locks", "resolve", "accounts", "--yes", "--scan")
	s.run(exitOK, "locks", "resolve", "people")
	s.run(exitUsage, "locks", "ls", "unknown")
	s.run(exitUsage, "locks", "resolve", "unknown", "--yes")
	s.run(exitUsage, "locks", "ls", "--limit", "0")
	s.run(exitUsage, "locks", "ls", "--older-than", "-1s")
	s.run(exitUsage, "locks", "resolve", "accounts", "Joe", "balance")
	s.run(exitUsage, "locks", "resolve", "-o", "yaml")
	s.compare("locks.txt")

	for row, want := range map[string]string{"Bob": "$3", "Joe": "$3", "Ann": "$5"} {
		if got := cl.must(exitOK, "get", "accounts", row, "balance", "--raw").out; got != want {
			t.Errorf("%s has %q, want %q", row, got, want)
		}
	}
}

// TestLocksResolveMany: several batches, all of them counted, in the order of rows.
func TestLocksResolveMany(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "accounts"}}})
	var cells []percolator.Cell
	for i := range 2*resolvedAtOnce + 1 {
		cells = append(cells, accounts(string([]byte{'a' + byte(i/26/26), 'a' + byte(i/26%26), 'a' + byte(i%26)})))
	}
	cl.die(beforeCommit, "x", cells...)
	s := session{c: cl}
	r := s.run(exitOK, "locks", "resolve", "--yes")
	if want := "513 rolled back\n"; r.out[len(r.out)-len("0 rolled forward, "+want):] != "0 rolled forward, "+want {
		t.Errorf("%s", r.out[max(0, len(r.out)-200):])
	}
	if r := s.run(exitOK, "locks", "ls"); r.out != "no locks\n" {
		t.Errorf("%s", r.out)
	}
}
