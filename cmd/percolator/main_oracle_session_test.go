package main

import "testing"

// TestOracleSession shows the commands around the oracle, from an empty instance on.
func TestOracleSession(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, nil)
	s := session{c: cl}
	s.run(exitUsage, "init", "--schema", "testdata/schema/none.yaml")
	s.run(exitOK, "init")
	s.run(exitOK, "init")
	s.run(exitOK, "init", "--schema", webSchema)
	s.run(exitOK, "init", "--schema", webSchema)
	s.run(exitFailure, "init", "--schema", shrunkSchema)
	s.run(exitUsage, "init", "--project=")
	s.run(exitUsage, "init", "x")
	s.run(exitOK, "tso", "next")
	s.run(exitOK, "tso", "status")
	s.run(exitOK, "tso", "status", "-o", "json")
	s.run(exitUsage, "tso", "status", "-o", "xml")
	s.run(exitOK, "tso", "raise", "--to", "now+1m")
	s.run(exitUsage, "tso", "raise", "--to", "now")
	s.run(exitUsage, "tso", "raise", "--to", "now+2h")
	s.run(exitUsage, "tso", "raise", "--to", "tomorrow")
	s.run(exitRecord, "tso", "raise", "--to", "now+1m", "--name", "another")
	s.replace(`("storeAnsweredMillis": |"served": |"record": |leads +\S+ +\d+ +)\d+`, "${1}N") // they change while the oracle leads
	s.replace(`is 1h59m\d+s ahead|is 2h0m0s ahead`, "is 2h ahead")
	s.compare("oracle.txt")

	cl.must(exitUsage, "init", "--spanner", "projects/p/instances/i/databases/d", "--schema", webSchema)
	cl.must(exitUnavailable, "tso", "next", "--tso", "127.0.0.1:1", "--timeout", "300ms")
	cl.must(exitUnavailable, "tso", "status", "--tso", "127.0.0.1:1", "--timeout", "300ms")
}
