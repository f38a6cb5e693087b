package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// cellSchema has a table of every kind.
func cellSchema() *percolator.Schema {
	return &percolator.Schema{
		Tables: []percolator.Table{
			{Name: "documents", Observed: []string{"contents"}, Weak: []string{"recount"}, Indexes: []percolator.Index{{Name: "by-url", Column: "url", Unique: true}}},
			{Name: "accounts"},
		},
		Timing: percolator.Timing{RequestLifetime: 3 * time.Second, MetaMaxAge: 3 * time.Second},
	}
}

func TestCellCommands(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testCellCommands)
}

func testCellCommands(t *testing.T) {
	cl := newCluster(t, cellSchema())
	s := session{c: cl}
	s.run(cli.ExitNotFound, "get", "documents", "com.example/")
	s.run(cli.ExitOK, "set", "documents", "com.example/", "title", "Example <Domain>")
	s.run(cli.ExitOK, "set", "documents", "com.example/", "url", "http://example.com/", "-o", "json")
	s.runWith(cli.ExitOK, "<html>\n</html>\n", "set", "documents", "com.example/", "contents", "--file", "-")
	s.run(cli.ExitOK, "set", "documents", `"\x00\xff"`, "a b", "00ff", "--hex")
	s.run(cli.ExitOK, "set", "documents", "empty", "title", "")
	s.run(cli.ExitConflict, "set", "documents", "com.example/", "title", "another", "--insert")
	s.run(cli.ExitConflict, "set", "documents", "com.example/copy", "url", "http://example.com/")
	s.run(cli.ExitOK, "set", "documents", "com.example/copy", "title", "a copy", "--insert")
	s.run(cli.ExitOK, "get", "documents", "com.example/")
	s.run(cli.ExitOK, "get", "documents", "com.example/", "title", "-o", "json")
	s.run(cli.ExitOK, "get", "documents", `"\x00\xff"`, "-o", "json")
	s.run(cli.ExitOK, "get", "documents", "com.example/", "title", "--raw")
	s.run(cli.ExitNotFound, "get", "documents", "com.example/", "title", "nothing", "more")
	s.run(cli.ExitNotFound, "get", "documents", "com.example/", "nothing", "-o", "json")
	s.run(cli.ExitNotFound, "get", "documents", "com.example/", "nothing", "--raw")
	s.run(cli.ExitOK, "scan", "documents")
	s.run(cli.ExitUsage, "scan", "by-url")
	s.run(cli.ExitOK, "scan", "documents", "title", "--prefix", "com.", "--limit", "1")
	s.run(cli.ExitOK, "scan", "documents", "title", "--prefix", "com.", "--limit", "1", "-o", "json")
	s.run(cli.ExitOK, "scan", "documents", "title", "--from", "com.example/copy", "--to", "f", "-o", "json", "--limit", "0")
	s.run(cli.ExitOK, "scan", "documents", "--index", "by-url", "--prefix", "http://")
	s.run(cli.ExitOK, "scan", "documents", "--reverse", "--limit", "3")
	s.run(cli.ExitOK, "scan", "documents", "title", "--prefix", "com.", "--reverse", "--limit", "1", "-o", "json")
	s.run(cli.ExitOK, "scan", "documents", "--from", "x")
	s.run(cli.ExitOK, "scan", "documents", "--from", "x", "-o", "json")
	s.run(cli.ExitOK, "del", "documents", "com.example/", "title")
	s.run(cli.ExitOK, "del", "documents", "com.example/", "nothing", "-o", "json")
	s.run(cli.ExitNotFound, "get", "documents", "com.example/", "title")
	s.run(cli.ExitOK, "del-range", "documents", "--prefix", "com.", "--dry-run")
	s.run(cli.ExitOK, "del-range", "documents", "url", "--prefix", "com.", "--yes")
	s.run(cli.ExitOK, "del-range", "documents", "--to", "d", "--yes", "-o", "json")
	s.run(cli.ExitOK, "scan", "documents", "title", "contents", "url")
	s.run(cli.ExitUsage, "del-range", "documents", "--all", "--to", "d")
	s.run(cli.ExitUsage, "del-range", "documents")
	s.run(cli.ExitUsage, "get", "nowhere", "row")
	s.run(cli.ExitUsage, "set", "documents", "row", "recount", "a weak column")
	s.compare("cells.txt")
}

func TestCellUsage(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCellUsage)
}

func testCellUsage(t *testing.T) {
	cl := newCluster(t, cellSchema())
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte("0a0B\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][]string{
		{"get", "accounts"}, {"get", "accounts", ""}, {"get", "accounts", "alice", "--raw"}, {"get", "accounts", "alice", "-o", "xml"}, {"get", "accounts", `"alice`},
		{"set", "accounts", "alice", "balance"}, {"set", "accounts", "alice", "balance", "1", "--file", file}, {"set", "accounts", "alice", "balance", "--file", "none"},
		{"set", "accounts", "alice", "balance", "1", "--hex"}, {"set", "accounts", "", "balance", "1"}, {"set", "accounts", "alice", "", "1"},
		{"set", "accounts", "alice", "balance", "1", "-o", "xml"},
		{"del", "accounts", "alice"}, {"del", "accounts", "alice", "balance", "x"}, {"del", "accounts", "alice", "balance", "-o", "xml"},
		{"scan"}, {"scan", "accounts", "--limit", "-1"}, {"scan", "accounts", "--prefix", "a", "--to", "b"}, {"scan", "accounts", "-o", "xml"},
		{"scan", "documents", "title", "--index", "by-url"}, {"get", "accounts", "alice", "--project="}, {"get", "accounts", "alice", "--tso="},
	} {
		cl.must(cli.ExitUsage, wrong...)
	}
	cl.must(cli.ExitUsage, "scan", "accounts", "--index", "none")
	cl.must(cli.ExitUnavailable, "get", "accounts", "alice", "--tso", "127.0.0.1:1", "--timeout", "300ms")
	cl.must(cli.ExitOK, "set", "accounts", "alice", "balance", "--hex", "--file", file)
	if got := cl.must(cli.ExitOK, "get", "accounts", "alice", "balance", "--raw").out; got != "\n\x0b" {
		t.Errorf("%q was set from a file in hexadecimal", got)
	}
	cl.must(cli.ExitOK, "set", "--project="+cl.project, "--instance="+cl.instance, "--tso="+cl.tso, "accounts", "alice", "balance", "--", "-1")
	if got := cl.must(cli.ExitOK, "get", "accounts", "alice", "balance", "--raw").out; got != "-1" {
		t.Errorf("%q was set, want -1", got)
	}
}
