package main

import (
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestTwoTeamsSession: two teams apply files of their own to one instance, and neither can take, or
// drop, a table of the other's.
func TestTwoTeamsSession(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testTwoTeamsSession)
}

func testTwoTeamsSession(t *testing.T) {
	const dir = "testdata/schema/team-"
	cl := newCluster(t, nil)
	s := session{c: cl}
	s.run(cli.ExitOK, "schema", "apply", dir+"orders.yaml", "--yes")
	s.run(cli.ExitOK, "schema", "apply", dir+"search.yaml", "--yes")
	s.run(cli.ExitOK, "schema", "diff", dir+"orders.yaml")
	s.run(cli.ExitFailure, "schema", "apply", dir+"search-stock.yaml", "--yes")
	stored := s.run(cli.ExitOK, "schema", "show")
	s.runWith(cli.ExitOK, stored.out, "schema", "diff", "-")
	orders := s.run(cli.ExitOK, "schema", "show", "--name", "orders")
	s.runWith(cli.ExitOK, orders.out, "schema", "diff", "-")
	s.run(cli.ExitNotFound, "schema", "show", "--name", "oders")
	cl.client = cl.newClient(percolator.Config{})
	s.run(cli.ExitOK, "schema", "apply", dir+"orders-less.yaml", "--drop", "--yes")
	s.run(cli.ExitOK, "schema", "show")
	s.compare("teams.txt")
}
