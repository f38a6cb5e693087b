package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// cellSchema has a table of every kind.
func cellSchema() *percolator.Schema {
	return &percolator.Schema{
		Tables: []percolator.Table{
			{Name: "documents", Observed: []string{"contents"}, Weak: []string{"recount"}, Indexes: []percolator.Index{{Name: "by-url", Column: "url", Unique: true}}},
			{Name: "accounts"},
		},
		Timing: percolator.Timing{RequestLifetime: 10 * time.Second, MetaMaxAge: time.Second},
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

// TestAsOf: every form of --as-of reads what was there then, and what cannot be read is refused.
func TestAsOf(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, cellSchema())
	cell := percolator.Cell{Table: "accounts", Row: "alice", Column: "balance"}
	first := cl.set(map[percolator.Cell]string{cell: "10"})
	cl.set(map[percolator.Cell]string{cell: "3"})
	get := func(asOf string) string {
		return cl.must(exitOK, "get", "accounts", "alice", "balance", "--raw", "--as-of", asOf).out
	}
	if now := get("1ns ago"); now != "3" {
		t.Errorf("a moment ago: %q, want 3", now)
	}
	if then := get(committed(first)); then != "10" {
		t.Errorf("at the first commit: %q, want 10", then)
	}
	cl.must(exitNotFound, "get", "accounts", "alice", "--as-of", "10m")
	cl.must(exitNotFound, "get", "accounts", "alice", "--as-of", time.Now().Add(-48*time.Hour).Format(time.RFC3339)) // nothing was collected yet
	if out := cl.must(exitOK, "scan", "accounts", "--as-of", committed(first)).out; !strings.Contains(out, " 10\n") {
		t.Errorf("scan --as-of printed %q", out)
	}
	for _, wrong := range []string{"yesterday", "-10m", "0", "2026-01-01", committed(tso.MaxTimestamp), time.Now().Add(time.Hour).Format(time.RFC3339)} {
		cl.must(exitUsage, "get", "accounts", "alice", "--as-of="+wrong)
	}
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

// TestLongScan: a table longer than what is lined up at a time has one head, and JSON is one
// document.
func TestLongScan(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	entries := func(yield func(percolator.Entry, error) bool) {
		for range 2*alignedLines + 1 {
			if !yield(percolator.Entry{Cell: percolator.Cell{Table: "t", Row: "r", Column: "c"}, Value: []byte(strings.Repeat("ä", 40)), CommitTS: 1}, nil) {
				return
			}
		}
	}
	if err := showScan(&out, &percolator.Snapshot{}, untyped, entries, 0, outputFlag{outputTable}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2*alignedLines+2 || strings.Count(out.String(), "ROW") != 1 {
		t.Errorf("%d lines, %d heads", lines, strings.Count(out.String(), "ROW"))
	}
	if want := strings.Repeat("ä", 32) + "… (80 bytes)"; !strings.Contains(out.String(), want) {
		t.Errorf("a long value is not shown as %s", want)
	}
	broken := errors.New("broken off")
	err := showScan(&out, &percolator.Snapshot{}, untyped, func(yield func(percolator.Entry, error) bool) { yield(percolator.Entry{}, broken) }, 0, outputFlag{outputJSON})
	if !errors.Is(err, broken) {
		t.Errorf("a scan that fails: %v", err)
	}
}

// TestShownValues: two different values never look the same.
func TestShownValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"a b": "a b", "": `""`, `"`: `"\""`, " a": `" a"`, "a\n": `"a\n"`, "\xff": `"\xff"`, "ä€": "ä€", `{"a": 1}`: `{"a": 1}`, "\u202e": `"\u202e"`, "\ufffd": `"` + "\ufffd" + `"`,
	} {
		if got := shownValue([]byte(value)); got != want {
			t.Errorf("%q is shown as %s, want %s", value, got, want)
		}
	}
}

// What was read before an error is shown.
func TestScanBreaksOff(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := showScan(&out, nil, untyped, func(yield func(percolator.Entry, error) bool) {
		for range 3 {
			if !yield(percolator.Entry{Cell: percolator.Cell{Table: "t", Row: "r", Column: "c"}, Value: []byte("v")}, nil) {
				return
			}
		}
		yield(percolator.Entry{}, errors.New("broken"))
	}, 100, outputFlag{outputTable})
	if err == nil || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%v; printed %q, want the three rows that were read", err, out.String())
	}
}

// untyped is what the commands know of tables that declare no columns.
func untyped(_, _ string) percolator.Type { return percolator.TypeBytes }
