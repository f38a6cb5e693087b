package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestDropSession: an index, then columns that are declared, observed and weak, then a table are
// left out of the schema file, which is refused until --drop is given.
func TestDropSession(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testDropSession)
}

func testDropSession(t *testing.T) {
	const dir = "testdata/schema/drop-"
	cl := newCluster(t, nil)
	s := session{c: cl}
	s.run(cli.ExitOK, "schema", "apply", dir+"nothing.yaml", "--yes")
	cl.client = cl.newClient(percolator.Config{})
	cl.set(map[percolator.Cell]string{
		{Table: "stock", Row: "bolts", Column: "colour"}: "red", {Table: "stock", Row: "bolts", Column: "name"}: "bolts", {Table: "old", Row: "r", Column: "c"}: "v",
	})
	for _, what := range []string{"index", "columns", "table"} {
		file := dir + what + ".yaml"
		s.run(cli.ExitFindings, "schema", "diff", file)
		s.run(cli.ExitFailure, "schema", "apply", file, "--yes")
		s.run(cli.ExitOK, "schema", "apply", file, "--drop", "--dry-run")
		s.run(cli.ExitOK, "schema", "apply", file, "--drop", "--yes")
		s.run(cli.ExitOK, "schema", "apply", file, "--drop", "--yes")
	}
	s.run(cli.ExitOK, "scan", "stock")
	s.run(cli.ExitOK, "schema", "show")
	s.compare("drop.txt")
}

// A command that has dropped something says neither that it refused to, nor that there was nothing
// to do.
func TestDropsAreNotRefused(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range strings.Split("\n"+string(text), "\n$ ") {
			name, _, _ := strings.Cut(command, "\n")
			if !strings.Contains(command, "\ndeleted from Bigtable: ") {
				continue
			}
			for _, untrue := range []string{"(refused", "\nnothing to do"} {
				if strings.Contains(command, untrue) {
					t.Errorf("%s: %s: it dropped something, and says %q:\n%s", file, name, strings.TrimSpace(untrue), command)
				}
			}
		}
	}
}
