package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// How rows are divided into files is random in the emulator.
var (
	manifestSums = regexp.MustCompile(`manifest [0-9a-f]{64}`)
	partNames    = regexp.MustCompile(`part-[0-9a-f]+-\d+-\d+`)
	partSizes    = regexp.MustCompile(`(the manifest says )\d+`)
)

// What one table exports, another one imports.
func TestImportOfExport(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testImportOfExport)
}

func testImportOfExport(t *testing.T) {
	t.Helper()
	columns := []percolator.ColumnSchema{{Name: "stars", Type: percolator.TypeInt64}, {Name: "text", Type: percolator.TypeString}, {Name: "tag:*"}}
	schema := &percolator.Schema{Timing: importSchema.Timing}
	for _, name := range []string{"reviews", "copy", "again", "flat", "csv"} {
		schema.Tables = append(schema.Tables, percolator.Table{Name: name, Columns: columns})
	}
	schema.Tables = append(schema.Tables, percolator.Table{Name: "open"})
	cl, dir := newCluster(t, schema), t.TempDir()
	for i := range 3 {
		row := fmt.Sprint("r", i)
		cl.set(map[percolator.Cell]string{
			{Table: "reviews", Row: row, Column: "stars"}:    string(values.EncodeInt64(int64(i))),
			{Table: "reviews", Row: row, Column: "text"}:     "text of " + row,
			{Table: "reviews", Row: row, Column: "tag:\xff"}: "\x00",
		})
	}
	s := session{c: cl}
	parquet, lines, flat, csv := filepath.Join(dir, "parquet"), filepath.Join(dir, "lines"), filepath.Join(dir, "flat"), filepath.Join(dir, "csv")
	s.run(cli.ExitOK, "export", "reviews", parquet)
	s.run(cli.ExitOK, "export", "reviews", lines, "--format", "jsonl")
	s.run(cli.ExitOK, "import", "copy", "--from", parquet)
	s.run(cli.ExitOK, "import", "again", "--from", lines, "-o", "json")
	s.run(cli.ExitOK, "export", "reviews", flat, "--format", "jsonl", "--key", "id")
	s.run(cli.ExitOK, "import", "flat", "--from", flat)
	s.run(cli.ExitUsage, "export", "reviews", csv, "--format", "csv", "--concurrency", "1")
	s.run(cli.ExitOK, "export", "reviews", csv, "stars", "text", "--format", "csv", "--key", "id")
	s.run(cli.ExitOK, "import", "csv", "--from", csv)
	s.run(cli.ExitUsage, "export", "open", filepath.Join(dir, "open"), "--format", "csv")
	for _, of := range []string{flat, csv} {
		files, err := filepath.Glob(filepath.Join(of, "part-*"))
		fixture.Must(t, err)
		for i, name := range files {
			text, err := os.ReadFile(name)
			fixture.Must(t, err)
			lines := slices.Collect(strings.Lines(string(text)))
			if of == csv && i > 0 { // the header
				lines = lines[1:]
			}
			s.text.WriteString(strings.Join(lines, ""))
		}
		s.text.WriteString("\n")
	}
	s.run(cli.ExitOK, "scan", "reviews")
	s.run(cli.ExitOK, "scan", "copy")
	s.run(cli.ExitOK, "scan", "again")
	s.run(cli.ExitOK, "scan", "flat")
	s.run(cli.ExitOK, "scan", "csv")
	s.run(cli.ExitUsage, "import", "open", "--from", parquet)

	// What is no export, or not all of one, is refused before the table is closed.
	s.run(cli.ExitUsage, "import", "open", "--from", dir)
	s.run(cli.ExitUsage, "import", "open", "--from", filepath.Join(dir, "none"))
	parts, err := filepath.Glob(filepath.Join(lines, "part-*"))
	if err != nil || len(parts) == 0 {
		t.Fatal(parts, err)
	}
	fixture.Must(t, os.Truncate(parts[0], 10))
	s.run(cli.ExitFindings, "import", "open", "--from", lines)
	fixture.Must(t, os.Remove(parts[0]))
	s.run(cli.ExitFindings, "import", "open", "--from", lines)
	s.run(cli.ExitOK, "scan", "open")

	text := fileCounts.ReplaceAllString(strings.ReplaceAll(s.text.String(), dir, "DIR"), "${1}<n>")
	text = importShows.ReplaceAllString(importTook.ReplaceAllString(normalized(text), "${1}<n>"), "")
	text = partSizes.ReplaceAllString(partNames.ReplaceAllString(text, "part-<n>"), "${1}<n>")
	golden.Compare(t, "import-export.txt", manifestSums.ReplaceAllString(text, "manifest <hash>"))
}
