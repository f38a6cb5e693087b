package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// How rows are divided into files depends on what the emulator says of tablets, which is random.
var fileCounts = regexp.MustCompile(`\d+ files, \S+ \S+|("(?:files|bytes)": )\d+`)

func TestExport(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testExport)
}

func testExport(t *testing.T) {
	schema := cellSchema()
	schema.Tables[1].Columns = []percolator.ColumnSchema{{Name: "balance", Type: percolator.TypeInt64}, {Name: "note", Type: percolator.TypeString}}
	cl, dir := newCluster(t, schema), t.TempDir()
	at := filepath.Join(dir, "accounts")
	cl.set(map[percolator.Cell]string{
		{Table: "accounts", Row: "alice", Column: "balance"}: "\x00\x00\x00\x00\x00\x00\x00\x0a",
		{Table: "accounts", Row: "alice", Column: "note"}:    "a \"note\"",
		{Table: "accounts", Row: "bob", Column: "balance"}:   "\x00\x00\x00\x00\x00\x00\x00\x03",
	})
	time.Sleep(time.Minute)
	cl.set(map[percolator.Cell]string{{Table: "accounts", Row: "carol", Column: "note"}: "later"})
	s := session{c: cl}
	s.run(exitOK, "export", "accounts", at)
	s.run(exitConflict, "export", "accounts", at)
	s.run(exitOK, "export", "accounts", filepath.Join(dir, "before"), "balance", "--format", "jsonl", "--as-of", "30s", "-o", "json")
	s.run(exitUsage, "export", "accounts", at, "--format", "csv")
	s.run(exitUsage, "export", "accounts", at, "--concurrency", "65")
	s.run(exitUsage, "export", "accounts", "s3://bucket/path")
	s.run(exitUsage, "export", "accounts")
	s.run(exitUsage, "export", "nothing", filepath.Join(dir, "nothing"))
	text := fileCounts.ReplaceAllString(strings.ReplaceAll(s.text.String(), dir, "DIR"), "${1}<n>")
	golden(t, "export.txt", normalized(text))
}
