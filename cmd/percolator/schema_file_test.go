package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v2"

	"github.com/gopercolator/percolator/percolator"
)

func TestReadSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "schema.yaml")
	text := `---
# all of it
tables:
  - name: documents
    observed: [contents, "a b", "y", "on", "7", "~"]
    weak: ['"\xff"']
    indexes:
      - {name: by-url, column: url, unique: true}
    splits: [g, '"\x00"']
  - {name: links}
timing: {requestLifetime: 10s, metaMaxAge: 20s}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readSchema(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &percolator.Schema{
		Tables: []percolator.Table{
			{Name: "documents", Observed: []string{"contents", "a b", "y", "on", "7", "~"}, Weak: []string{"\xff"}, Splits: []string{"g", "\x00"},
				Indexes: []percolator.Index{{Name: "by-url", Column: "url", Unique: true}}},
			{Name: "links"},
		},
		Timing: percolator.Timing{RequestLifetime: 10 * time.Second, MetaMaxAge: 20 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	written, err := yaml.Marshal(toFile(want))
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseSchema(written)
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("written and read again: %s", diff)
	}
}

// TestWrongSchemaFiles: each error is wrong usage and names the line or the field.
func TestWrongSchemaFiles(t *testing.T) {
	t.Parallel()
	for text, names := range map[string]string{
		"":                                   "tables",
		"{}":                                 "tables",
		"tables: []":                         "tables",
		"tables:\n\t- name: t":               "line 2",
		"tables:\n  - name: t\n  name: [":    "line 2",
		"tables: [{name: t}]\ntables: []":    "line 2",
		"tables: [{name: t}]\n---\ntables: ": "line 2",
		"tables: [{name: t, obsrved: [a]}]":  "tables[0].obsrved",
		"Tables: [{name: t}]":                "Tables",
		"tables: [{name: t, indexes: [{name: i, column: c, Unique: true}]}]": "tables[0].indexes[0].Unique",
		"tables: [{name: 7}]":                                 "tables[0].name: YAML reads this as 7",
		"tables: [{name: t, columns: [{name: y}]}]":           "tables[0].columns[0].name: YAML reads this as true",
		"tables: [{name: t, weak: [a, n]}]":                   "tables[0].weak[1]: YAML reads this as false",
		"tables: [{name: t, observed: c}]":                    "tables.observed",
		"tables: [{name: t, observed: [on]}]":                 "put it in quotes",
		"tables: t":                                           "tables",
		"- name: t":                                           "array",
		"tables: [{name: t, observed: ['\"a']}]":              "tables[0].observed[0]",
		"tables: [{name: t}]\ntiming: {metaMaxAge: 20}":       "timing.metaMaxAge",
		"tables: [{name: t}]\ntiming: {metaMaxAge: a minute}": "timing.metaMaxAge",
		"tables: [{name: t}]\ntiming: {requestLifetime: 1h}":  "RequestLifetime",
		"tables: [{name: a b}]":                               "a b",
		"tables: [{name: t}, {name: t}]":                      `"t"`,
		"tables: [{name: t, observed: [a], weak: [a]}]":       "a",
		"tables: [{name: t, indexes: [{name: i}]}]":           "column",
		"tables: [{name: percolator_meta}]":                   "percolator_meta",
		"tables: [{name: t}] # " + strings.Repeat("x", 1<<20): "bytes",
	} {
		_, err := readSchema(t.Context(), "-", strings.NewReader(text))
		if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), names) || !strings.HasPrefix(err.Error(), "the standard input: ") {
			t.Errorf("%.60q: %v; want wrong usage that names %q", text, err, names)
		}
	}
	if _, err := readSchema(t.Context(), filepath.Join(t.TempDir(), "none"), nil); exitCode(err) != exitUsage {
		t.Errorf("a file that is missing: %v", err)
	}
}

// A second document would be dropped without a word.
func TestSchemaIsOneDocument(t *testing.T) {
	t.Parallel()
	const first = "tables: [{name: t}]\n"
	for _, more := range []string{"--- # second\ntables: [{name: u}]\n", "--- {tables: [{name: u}]}\n", "...\ntables: [{name: u}]\n", "...\nrubbish\n", "---\n"} {
		if s, err := parseSchema([]byte(first + more)); err == nil {
			t.Errorf("%q accepted as %v", more, s.Tables)
		}
	}
	for _, text := range []string{"---\n" + first, "# a comment\n--- # one\n" + first, first + "...\n# the end\n"} {
		if _, err := parseSchema([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
