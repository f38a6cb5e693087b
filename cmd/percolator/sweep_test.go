package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestSweepCommand: an instance without a journal gets one by schema apply, and sweep builds it.
func TestSweepCommand(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSweepCommand)
}

func testSweepCommand(t *testing.T) {
	const schema = `tables: [{name: documents, observed: [contents]}]
timing: {requestLifetime: 500ms, metaMaxAge: 1s}
`
	dir := t.TempDir()
	with, without := filepath.Join(dir, "with.yaml"), filepath.Join(dir, "without.yaml")
	for path, text := range map[string]string{with: schema, without: schema + "disableJournal: true\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cl := newCluster(t, nil)
	s := session{c: cl}
	s.run(cli.ExitOK, "schema", "apply", without, "--yes")
	s.run(cli.ExitOK, "schema", "show")
	s.run(cli.ExitOK, "schema", "show", "-o", "json")
	s.run(cli.ExitFailure, "sweep")
	cl.client = cl.newClient(percolator.Config{})
	cl.set(map[percolator.Cell]string{{Table: "documents", Row: "a", Column: "contents"}: "1", {Table: "documents", Row: "b", Column: "url"}: "2"})
	s.run(cli.ExitFindings, "schema", "diff", with)
	s.run(cli.ExitFindings, "schema", "diff", with, "-o", "json")
	s.run(cli.ExitOK, "schema", "apply", with, "--yes")
	s.run(cli.ExitOK, "schema", "show")
	s.run(cli.ExitOK, "sweep")
	s.run(cli.ExitOK, "schema", "show", "-o", "json")
	s.run(cli.ExitOK, "sweep")
	s.run(cli.ExitOK, "sweep", "-o", "json")
	s.run(cli.ExitUsage, "sweep", "--rows-per-second", "0")
	s.run(cli.ExitOK, "schema", "apply", without, "--yes")
	s.run(cli.ExitOK, "schema", "apply", with, "--yes", "--backfill")
	golden.Compare(t, "sweep.txt", strings.ReplaceAll(normalized(s.text.String()), dir+"/", ""))
}
