package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/export"
	"github.com/gopercolator/percolator/cmd/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/loader"
)

// How rows are divided into files is random in the emulator.
var (
	manifestSums = regexp.MustCompile(`manifest [0-9a-f]{64}`)
	partNames    = regexp.MustCompile(`part-\d+-\d+`)
	partSizes    = regexp.MustCompile(`(the manifest says )\d+`)
)

// What one table exports, another one imports.
func testImportOfExport(t *testing.T) {
	t.Helper()
	columns := []percolator.ColumnSchema{{Name: "stars", Type: percolator.TypeInt64}, {Name: "text", Type: percolator.TypeString}, {Name: "tag:*"}}
	schema := &percolator.Schema{Timing: importSchema.Timing}
	for _, name := range []string{"reviews", "copy", "again"} {
		schema.Tables = append(schema.Tables, percolator.Table{Name: name, Columns: columns})
	}
	schema.Tables = append(schema.Tables, percolator.Table{Name: "open"})
	cl, dir := newCluster(t, schema), t.TempDir()
	for i := range 3 {
		row := fmt.Sprint("r", i)
		cl.set(map[percolator.Cell]string{
			{Table: "reviews", Row: row, Column: "stars"}:    string(model.EncodeInt64(int64(i))),
			{Table: "reviews", Row: row, Column: "text"}:     "text of " + row,
			{Table: "reviews", Row: row, Column: "tag:\xff"}: "\x00",
		})
	}
	s := session{c: cl}
	parquet, lines := filepath.Join(dir, "parquet"), filepath.Join(dir, "lines")
	s.run(exitOK, "export", "reviews", parquet)
	s.run(exitOK, "export", "reviews", lines, "--format", "jsonl")
	s.run(exitOK, "import", "copy", "--from", parquet)
	s.run(exitOK, "import", "again", "--from", lines, "-o", "json")
	s.run(exitOK, "scan", "reviews")
	s.run(exitOK, "scan", "copy")
	s.run(exitOK, "scan", "again")
	s.run(exitUsage, "import", "open", "--from", parquet)

	// What is no export, or not all of one, is refused before the table is closed.
	s.run(exitUsage, "import", "open", "--from", dir)
	s.run(exitUsage, "import", "open", "--from", filepath.Join(dir, "none"))
	parts, err := filepath.Glob(filepath.Join(lines, "part-*"))
	if err != nil || len(parts) == 0 {
		t.Fatal(parts, err)
	}
	fixture.Must(t, os.Truncate(parts[0], 10))
	s.run(exitFindings, "import", "open", "--from", lines)
	fixture.Must(t, os.Remove(parts[0]))
	s.run(exitFindings, "import", "open", "--from", lines)
	s.run(exitOK, "scan", "open")

	text := fileCounts.ReplaceAllString(strings.ReplaceAll(s.text.String(), dir, "DIR"), "${1}<n>")
	text = importShows.ReplaceAllString(importTook.ReplaceAllString(normalized(text), "${1}<n>"), "")
	text = partSizes.ReplaceAllString(partNames.ReplaceAllString(text, "part-<n>"), "${1}<n>")
	golden(t, "import-export.txt", manifestSums.ReplaceAllString(text, "manifest <hash>"))
}

// An import of several files goes on behind each of its rows, and takes no file that has not what
// the manifest says.
func testRowsOfExport(t *testing.T, format export.Format) {
	t.Helper()
	info, _ := model.NewCatalog(&percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}).UserTable("t")
	table, place := formats.NewTable(info), backup.Dir(t.TempDir())
	m := export.Manifest{Version: 1, Table: "t", Format: format}
	encode := func(rows []formats.Row) []byte {
		var b bytes.Buffer
		if format == export.Parquet {
			w := table.NewParquetWriter(&b)
			for _, row := range rows {
				_, err := w.Write(row)
				fixture.Must(t, err)
			}
			fixture.Must(t, w.Close())
			return b.Bytes()
		}
		var lines []byte
		for _, row := range rows {
			lines, _ = table.AppendJSON(lines, row)
		}
		return lines
	}
	var keys []string
	for i, n := range []int{2, 1, 3} {
		var rows []formats.Row
		for j := range n {
			keys = append(keys, fmt.Sprint(i, j))
			rows = append(rows, formats.Row{Key: fmt.Sprint(i, j), Cells: []formats.Cell{{Column: "a", Value: []byte("x")}, {Column: "b", Value: []byte("y")}}})
		}
		b := encode(rows)
		p := export.Part{Name: fmt.Sprintf("part-%05d-00000.%s", i, format), Counts: export.Counts{Rows: int64(n), Values: int64(2 * n), Bytes: int64(len(b))}}
		fixture.Must(t, place.Put(t.Context(), p.Name, b))
		m.Parts = append(m.Parts, p)
		m.Total.Rows, m.Total.Values = m.Total.Rows+p.Rows, m.Total.Values+p.Values
	}
	store := func(m export.Manifest) *exported {
		b, err := json.Marshal(m)
		fixture.Must(t, err)
		fixture.Must(t, place.Put(t.Context(), "manifest.json", b))
		read, _, err := export.ReadManifest(t.Context(), place)
		fixture.Must(t, err)
		return &exported{place: place, manifest: read, table: table}
	}
	read := func(e *exported, from loader.Position) (got []string, places []loader.Position, err error) {
		for item, err := range e.rows(t.Context(), from) {
			if err != nil {
				return got, places, err
			}
			got = append(got, item.Value.Row)
			places = append(places, loader.Position{Items: from.Items + int64(len(got)), Token: item.Token})
		}
		return got, places, nil
	}
	e := store(m)
	got, places, err := read(e, loader.Position{})
	if err != nil || !slices.Equal(got, keys) {
		t.Fatalf("%q, %v", got, err)
	}
	for i, from := range places {
		if rest, _, err := read(e, from); err != nil || !slices.Equal(rest, keys[i+1:]) {
			t.Errorf("behind row %d: %q, %v", i, rest, err)
		}
	}

	// A file of the right size that lacks a row or a value.
	for _, less := range []export.Counts{{Rows: 1}, {Values: 1}} {
		other := m
		other.Parts = slices.Clone(m.Parts)
		other.Parts[1].Rows, other.Parts[1].Values = m.Parts[1].Rows+less.Rows, m.Parts[1].Values+less.Values
		other.Total.Rows, other.Total.Values = m.Total.Rows+less.Rows, m.Total.Values+less.Values
		got, _, err := read(store(other), loader.Position{})
		if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), m.Parts[1].Name) || len(got) != 3 {
			t.Errorf("%+v: %q, %v", less, got, err)
		}
		if _, _, err := read(store(other), places[2]); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%+v, behind that file: %v", less, err)
		}
	}
	// A manifest that contradicts itself.
	m.Total.Rows++
	b, err := json.Marshal(m)
	fixture.Must(t, err)
	fixture.Must(t, place.Put(t.Context(), "manifest.json", b))
	if _, _, err := export.ReadManifest(t.Context(), place); !errors.Is(err, backup.ErrDamaged) {
		t.Error(err)
	}
}
