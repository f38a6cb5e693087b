package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
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
	if said := log.String(); code == exitOK || !strings.Contains(said, want) || text.Lines(said) != said {
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

// A cell of a table stays in its place, whatever a server has answered.
func TestTableIsPrintable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writeTable(&out, []serverStatus{{Target: "a:1", Version: hostile, Error: "no\nsuch\tthing"}})
	if said := out.String(); text.Lines(said) != said || strings.Count(said, "\n") != 2 || !strings.Contains(said, escaped) {
		t.Errorf("%q", said)
	}
}

func TestJSONIsPrintable(t *testing.T) {
	t.Parallel()
	var whole, streamed bytes.Buffer
	e := percolator.Entry{Cell: percolator.Cell{Table: "t", Row: "r", Column: "c"}, Value: []byte("\u009b1m\u202e\x7f")}
	err := (&outputFlag{format: outputJSON}).emit(&whole, columnTypes(untyped).cell(e), nil)
	if err := errors.Join(err, (&entryJSON{w: &streamed, types: untyped}).add(e)); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{whole.String(), streamed.String()} {
		if text.Lines(said) != said || !strings.Contains(said, `"\u009b1m\u202e\u007f"`) {
			t.Errorf("%q", said)
		}
	}
}
