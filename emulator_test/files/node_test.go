package files_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

var (
	modules = flag.String("files.node", "", "a directory into which npm has installed hyparquet, hyparquet-compressors, hyparquet-writer and @duckdb/node-api")
	update  = flag.Bool("update", false, "rewrite the table of docs/internals/FORMATS.md")
)

// node runs a script beside what npm has installed, and returns what it prints.
func node(t *testing.T, script string, args ...string) string {
	t.Helper()
	if *modules == "" {
		t.Skip("make files runs it")
	}
	at := filepath.Join(*modules, strings.ReplaceAll(t.Name(), "/", "_")+".mjs")
	fixture.Must(t, os.WriteFile(at, []byte(script), 0o600))
	cmd := exec.CommandContext(fixture.Context(t), "node", append([]string{at}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	fixture.Must(t, err)
	return string(out)
}

// What DuckDB and hyparquet-writer write is read, whatever the codec and the encoding.
func TestEveryFormOfNodeIsRead(t *testing.T) {
	t.Parallel()
	lines := linesOf(3000) // DuckDB has 2,048 rows in a group at least
	for _, w := range []struct {
		name, script string
		forms        int
	}{{"DuckDB", "duckdb.mjs", 12}, {"hyparquet-writer", "hyparquet.mjs", 20}} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(filepath.Join("testdata", w.script))
			fixture.Must(t, err)
			lines := slices.Clone(lines)
			for i, l := range lines {
				if w.name != "DuckDB" && l.Time != nil { // JavaScript's times
					lines[i].Time = new(*l.Time / 1000 * 1000)
				}
			}
			dir := t.TempDir()
			input := filepath.Join(t.TempDir(), "input.parquet")
			fixture.Must(t, os.WriteFile(input, form{"arrow-go", "UNCOMPRESSED", "plain", "1"}.file(t, lines), 0o600))
			node(t, string(script), input, dir)
			files, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
			if err != nil || len(files) != w.forms {
				t.Fatalf("%q, %v", files, err)
			}
			var have features
			for _, name := range files {
				b, err := os.ReadFile(name)
				fixture.Must(t, err)
				have.add(t, b)
				got, err := read(b)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				} else if difference := same(got, lines); difference != "" {
					t.Errorf("%s: %s", name, difference)
				}
			}
			documented(t, w.name, have)
		})
	}
}

// documented compares the line of a writer in docs/internals/FORMATS.md.
func documented(t *testing.T, writer string, have features) {
	t.Helper()
	const page = "../../docs/internals/FORMATS.md"
	data, err := os.ReadFile(page)
	fixture.Must(t, err)
	want := fmt.Sprintf("| %s | %s |", writer, have)
	if strings.Contains(string(data), want+"\n") {
		return
	}
	if !*update {
		t.Errorf("docs/internals/FORMATS.md lacks the line\n%s", want)
		return
	}
	line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(writer) + ` \|.*$`)
	fixture.Must(t, os.WriteFile(page, line.ReplaceAllLiteral(data, []byte(want)), 0o600))
}
