package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

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
		_, err := ReadSchema(t.Context(), "-", strings.NewReader(text))
		if err == nil || ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), names) || !strings.HasPrefix(err.Error(), "the standard input: ") {
			t.Errorf("%.60q: %v; want wrong usage that names %q", text, err, names)
		}
	}
	if _, err := ReadSchema(t.Context(), filepath.Join(t.TempDir(), "none"), nil); ExitCode(err) != ExitUsage {
		t.Errorf("a file that is missing: %v", err)
	}
}
