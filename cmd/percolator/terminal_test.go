package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
)

// hostile has an escape sequence, a bell, a return, C1's CSI in both encodings and a character that
// turns the direction of text.
const (
	hostile = "\x1b[2J\a\r\x9b1m\u009b1m\u202e"
	escaped = `\x1b[2J\a\r\x9b1m\u009b1m\u202e`
)

// wantPrintable runs a command that fails.
func wantPrintable(t *testing.T, want string, args ...string) {
	t.Helper()
	var log bytes.Buffer
	code := execute(t.Context(), args, strings.NewReader(""), &log, &log)
	if said := log.String(); code == cli.ExitOK || !strings.Contains(said, want) || text.Lines(said) != said {
		t.Errorf("%q: exit status %d, %q; want %s", args, code, said, want)
	}
}

// What files, names, flags and arguments contain reaches the terminal only in a form that it does
// not obey.
func TestErrorsArePrintable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stored := func(args ...string) []string { return append(args, "--project", "p", "--instance", "i") }
	for want, args := range map[string][]string{
		`ob\x1b[2J\a\u009b\u202e`: stored("schema", "diff", file("field", `tables: [{"ob\e[2J\a\u009b\u202e": 1}]`)),
		`t\x1b[2J`:                stored("schema", "apply", file("name", `tables: [{name: "t\e[2J"}]`)),
		escaped + "/none":         stored("schema", "diff", hostile+"/none"),
		"--" + escaped:            {"version", "--" + hostile},
		`\x1b`:                    {"version", "-\x1b"},
		`\x1b[2J`:                 {"\x1b[2J"},
		`\x9b`:                    {"version", "-o", "\x9b"},
		`\u202e`:                  {"capacity", "--set", "\u202e=1"},
	} {
		wantPrintable(t, want, args...)
	}
}

func TestEnvironmentIsPrintable(t *testing.T) {
	for variable, args := range map[string][]string{
		"PERCOLATOR_UI_LISTEN":        {"ui", "--project", "p", "--instance", "i", "--tso", "localhost:1"},
		"PERCOLATOR_OUTPUT":           {"version"},
		"PERCOLATOR_UI_ALLOW_CHANGES": {"ui"},
		"PERCOLATOR_TSO_ADDR":         {"tso", "next", "--timeout", "1s"},
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, strings.ReplaceAll(hostile, "\a", ""))
			wantPrintable(t, `\u202e`, args...)
		})
	}
}
