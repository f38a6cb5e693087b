package main

import (
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

// TestOracleSession shows the commands around the oracle, from an empty instance on.
func TestOracleSession(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, nil)
	s := session{c: cl}
	s.run(cli.ExitUsage, "init", "--schema", "testdata/schema/none.yaml")
	s.run(cli.ExitOK, "init")
	s.run(cli.ExitOK, "init")
	s.run(cli.ExitOK, "init", "--schema", webSchema)
	s.run(cli.ExitOK, "init", "--schema", webSchema)
	s.run(cli.ExitFailure, "init", "--schema", shrunkSchema)
	s.run(cli.ExitUsage, "init", "--project=")
	s.run(cli.ExitUsage, "init", "x")
	s.run(cli.ExitOK, "tso", "next")
	s.run(cli.ExitOK, "tso", "status")
	s.run(cli.ExitOK, "tso", "status", "-o", "json")
	s.run(cli.ExitUsage, "tso", "status", "-o", "xml")
	s.run(cli.ExitOK, "tso", "raise", "--to", "now+1m")
	s.run(cli.ExitUsage, "tso", "raise", "--to", "now")
	s.run(cli.ExitUsage, "tso", "raise", "--to", "now+2h")
	s.run(cli.ExitUsage, "tso", "raise", "--to", "tomorrow")
	s.run(cli.ExitRecord, "tso", "raise", "--to", "now+1m", "--name", "another")
	s.replace(`("storeAnsweredMillis": |"served": |"record": |leads +\S+ +\d+ +)\d+`, "${1}N") // they change while the oracle leads
	s.replace(`is 1h59m\d+s ahead|is 2h0m0s ahead`, "is 2h ahead")
	s.compare("oracle.txt")

	cl.must(cli.ExitUsage, "init", "--spanner", "projects/p/instances/i/databases/d", "--schema", webSchema)
	cl.must(cli.ExitUnavailable, "tso", "next", "--tso", "127.0.0.1:1", "--timeout", "300ms")
	cl.must(cli.ExitUnavailable, "tso", "status", "--tso", "127.0.0.1:1", "--timeout", "300ms")
}
