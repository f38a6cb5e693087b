package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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
	s.run(exitNotFound, "get", "documents", "com.example/")
	s.run(exitOK, "set", "documents", "com.example/", "title", "Example <Domain>")
	s.run(exitOK, "set", "documents", "com.example/", "url", "http://example.com/", "-o", "json")
	s.runWith(exitOK, "<html>\n</html>\n", "set", "documents", "com.example/", "contents", "--file", "-")
	s.run(exitOK, "set", "documents", `"\x00\xff"`, "a b", "00ff", "--hex")
	s.run(exitOK, "set", "documents", "empty", "title", "")
	s.run(exitConflict, "set", "documents", "com.example/", "title", "another", "--insert")
	s.run(exitConflict, "set", "documents", "com.example/copy", "url", "http://example.com/")
	s.run(exitOK, "set", "documents", "com.example/copy", "title", "a copy", "--insert")
	s.run(exitOK, "get", "documents", "com.example/")
	s.run(exitOK, "get", "documents", "com.example/", "title", "-o", "json")
	s.run(exitOK, "get", "documents", `"\x00\xff"`, "-o", "json")
	s.run(exitOK, "get", "documents", "com.example/", "title", "--raw")
	s.run(exitNotFound, "get", "documents", "com.example/", "title", "nothing", "more")
	s.run(exitNotFound, "get", "documents", "com.example/", "nothing", "-o", "json")
	s.run(exitNotFound, "get", "documents", "com.example/", "nothing", "--raw")
	s.run(exitOK, "scan", "documents")
	s.run(exitOK, "scan", "documents", "title", "--prefix", "com.", "--limit", "1")
	s.run(exitOK, "scan", "documents", "title", "--prefix", "com.", "--limit", "1", "-o", "json")
	s.run(exitOK, "scan", "documents", "title", "--from", "com.example/copy", "--to", "f", "-o", "json", "--limit", "0")
	s.run(exitOK, "scan", "documents", "--index", "by-url", "--prefix", "http://")
	s.run(exitOK, "scan", "documents", "--reverse", "--limit", "3")
	s.run(exitOK, "scan", "documents", "title", "--prefix", "com.", "--reverse", "--limit", "1", "-o", "json")
	s.run(exitOK, "scan", "documents", "--from", "x")
	s.run(exitOK, "scan", "documents", "--from", "x", "-o", "json")
	s.run(exitOK, "del", "documents", "com.example/", "title")
	s.run(exitOK, "del", "documents", "com.example/", "nothing", "-o", "json")
	s.run(exitNotFound, "get", "documents", "com.example/", "title")
	s.run(exitOK, "del-range", "documents", "--prefix", "com.", "--dry-run")
	s.run(exitOK, "del-range", "documents", "url", "--prefix", "com.", "--yes")
	s.run(exitOK, "del-range", "documents", "--to", "d", "--yes", "-o", "json")
	s.run(exitOK, "scan", "documents", "title", "contents", "url")
	s.run(exitUsage, "del-range", "documents", "--all", "--to", "d")
	s.run(exitUsage, "del-range", "documents")
	s.run(exitUsage, "get", "nowhere", "row")
	s.run(exitUsage, "set", "documents", "row", "recount", "a weak column")
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
		cl.must(exitUsage, wrong...)
	}
	cl.must(exitUsage, "scan", "accounts", "--index", "none")
	cl.must(exitUnavailable, "get", "accounts", "alice", "--tso", "127.0.0.1:1", "--timeout", "300ms")
	cl.must(exitOK, "set", "accounts", "alice", "balance", "--hex", "--file", file)
	if got := cl.must(exitOK, "get", "accounts", "alice", "balance", "--raw").out; got != "\n\x0b" {
		t.Errorf("%q was set from a file in hexadecimal", got)
	}
	cl.must(exitOK, "set", "--project="+cl.project, "--instance="+cl.instance, "--tso="+cl.tso, "accounts", "alice", "balance", "--", "-1")
	if got := cl.must(exitOK, "get", "accounts", "alice", "balance", "--raw").out; got != "-1" {
		t.Errorf("%q was set, want -1", got)
	}
}

// untyped is what the commands know of tables that declare no columns.
func untyped(_, _ string) percolator.Type { return percolator.TypeBytes }
