package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
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
	s.run(cli.ExitOK, "export", "accounts", at)
	s.run(cli.ExitConflict, "export", "accounts", at)
	s.run(cli.ExitOK, "export", "accounts", filepath.Join(dir, "before"), "balance", "--format", "jsonl", "--as-of", "30s", "-o", "json")
	s.run(cli.ExitUsage, "export", "accounts", at, "--format", "xml")
	s.run(cli.ExitUsage, "export", "accounts", at, "--key", "id")
	s.run(cli.ExitUsage, "export", "accounts", at, "--concurrency", "65")
	s.run(cli.ExitUsage, "export", "accounts", "s3://bucket/path")
	s.run(cli.ExitUsage, "export", "accounts")
	s.run(cli.ExitUsage, "export", "nothing", filepath.Join(dir, "nothing"))
	text := fileCounts.ReplaceAllString(strings.ReplaceAll(s.text.String(), dir, "DIR"), "${1}<n>")
	golden.Compare(t, "export.txt", normalized(text))
}
