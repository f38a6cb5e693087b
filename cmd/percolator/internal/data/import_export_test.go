package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
	"github.com/gopercolator/percolator/percolator/loader"
)

func TestRowsOfExport(t *testing.T) {
	t.Parallel()
	for _, m := range []export.Manifest{{Format: export.JSONLines}, {Format: export.JSONLines, Key: `"\xff"`}, {Format: export.Parquet}, {Format: export.CSV, Key: "id"}} {
		t.Run(string(m.Format)+m.Key, func(t *testing.T) { testRowsOfExport(t, m) })
	}
}

// An export in which the row key has a column's name fits a table that declares the column, and one
// that does not.
func TestExportIntoATableWithAColumnForTheKey(t *testing.T) {
	t.Parallel()
	name := percolator.ColumnSchema{Name: "name", Type: percolator.TypeString}
	without := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Columns: []percolator.ColumnSchema{name}}}}
	with := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Columns: []percolator.ColumnSchema{name, {Name: "id", Type: percolator.TypeString}}}}}
	for i, schemas := range [][2]*percolator.Schema{{without, without}, {without, with}, {with, without}, {with, with}} {
		from, err := formats.TableOf(schemas[0], "t")
		fixture.Must(t, err)
		to, err := formats.TableOf(schemas[1], "t")
		fixture.Must(t, err)
		row := formats.Row{Key: "r", Cells: []formats.Cell{{Column: "name", Value: []byte("x")}}}
		if schemas[0] == with {
			row.Cells = append(row.Cells, formats.Cell{Column: "id", Value: []byte("r")})
		}
		b, _, err := from.AppendFlat(nil, "id", row)
		fixture.Must(t, err)
		n := export.Counts{Rows: 1, Values: int64(len(row.Cells)), Bytes: int64(len(b))}
		manifest, err := json.Marshal(export.Manifest{
			Version: 2, Table: "t", Format: export.JSONLines, Key: "id", Schema: admin.EncodeSchema(schemas[0]), Total: n,
			Parts: []export.Part{{Name: "part-1", First: []byte("r"), Last: []byte("r"), SHA256: fmt.Sprintf("%x", sha256.Sum256(b)), Counts: n}},
		})
		fixture.Must(t, err)
		s := importSource{from: t.TempDir()}
		fixture.Must(t, backup.Dir(s.from).Put(t.Context(), "part-1", b))
		fixture.Must(t, backup.Dir(s.from).Put(t.Context(), "manifest.json", manifest))
		rows, _, closeSource, err := s.openExport(t.Context(), to)
		fixture.Must(t, err)
		got := 0
		for item, err := range rows(t.Context(), loader.Position{}) {
			if err != nil {
				t.Errorf("%d: %v", i, err)
				continue
			}
			got += len(item.Value.Cells)
		}
		if want := 1 + i%2; got != want {
			t.Errorf("%d: %d values, want %d", i, got, want)
		}
		closeSource()
	}
}

// An import of several files goes on behind each of its rows, and takes no file that has not what
// the manifest says.
func testRowsOfExport(t *testing.T, m export.Manifest) {
	t.Helper()
	format := m.Format
	info, _ := catalog.New(&percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}).UserTable("t")
	table, dir := formats.NewTable(info), t.TempDir()
	place := backup.Dir(dir)
	m.Version, m.Table = 2, "t"
	key, err := formats.ParseName(m.Key)
	fixture.Must(t, err)
	form, err := table.NewCSV([]string{"a", "b"}, key)
	fixture.Must(t, err)
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
			var err error
			switch {
			case format == export.CSV:
				lines, err = form.Append(lines, row)
			case key != "":
				lines, _, err = table.AppendFlat(lines, key, row)
			default:
				lines, _ = table.AppendJSON(lines, row)
			}
			fixture.Must(t, err)
		}
		return lines
	}
	var keys []string
	contents := map[string][]byte{}
	for i, n := range []int{2, 1, 3} {
		var rows []formats.Row
		for j := range n {
			keys = append(keys, fmt.Sprint(i, j))
			rows = append(rows, formats.Row{Key: fmt.Sprint(i, j), Cells: []formats.Cell{{Column: "a", Value: []byte("x")}, {Column: "b", Value: []byte("y")}}})
		}
		b := encode(rows)
		p := export.Part{Name: fmt.Sprintf("part-%05d-00000.%s", i, format), First: []byte(rows[0].Key), Last: []byte(rows[n-1].Key), SHA256: fmt.Sprintf("%x", sha256.Sum256(b)), Counts: export.Counts{Rows: int64(n), Values: int64(2 * n), Bytes: int64(len(b))}}
		fixture.Must(t, place.Put(t.Context(), p.Name, b))
		contents[p.Name] = b
		m.Parts = append(m.Parts, p)
		m.Total.Rows, m.Total.Values = m.Total.Rows+p.Rows, m.Total.Values+p.Values
	}
	store := func(m export.Manifest) *exported {
		b, err := json.Marshal(m)
		fixture.Must(t, err)
		fixture.Must(t, place.Put(t.Context(), "manifest.json", b))
		read, _, err := export.ReadManifest(t.Context(), place)
		fixture.Must(t, err)
		return &exported{place: place, manifest: read, key: key, table: table}
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

	// A file that changes behind its check.
	var changed []error
	for _, err := range e.rows(t.Context(), loader.Position{}) {
		if changed = append(changed, err); err != nil {
			break
		}
		fixture.Must(t, os.Chtimes(filepath.Join(dir, m.Parts[0].Name), time.Time{}, time.Unix(1, 0)))
	}
	if len(changed) != 3 || changed[2] == nil || !strings.Contains(changed[2].Error(), "changed while it was read") {
		t.Errorf("%v", changed)
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
	// Keys that are not those of the file.
	for _, change := range []func(*export.Part){func(p *export.Part) { p.First = []byte("0") }, func(p *export.Part) { p.Last = []byte("22 ") }} {
		other := m
		other.Parts = slices.Clone(m.Parts)
		change(&other.Parts[2])
		if got, _, err := read(store(other), loader.Position{}); !errors.Is(err, backup.ErrDamaged) || len(got) != len(keys) {
			t.Errorf("%q, %v", got, err)
		}
	}
	// Any byte of any file is another.
	bucket := cli.InBucket(memblob.OpenBucket(nil))
	for _, p := range m.Parts {
		b := contents[p.Name]
		fixture.Must(t, bucket.Put(t.Context(), p.Name, b))
	}
	for _, p := range m.Parts {
		for i := range p.Bytes {
			b := bytes.Clone(contents[p.Name])
			b[i] ^= 1 << (i % 8)
			places := []backup.Store{bucket}
			if i%61 == 0 { // a disk is slow
				places = append(places, place)
			}
			for _, to := range places {
				fixture.Must(t, to.Put(t.Context(), p.Name, b))
				if _, _, err := read(&exported{place: to, manifest: &m, key: key, table: table}, loader.Position{}); err == nil {
					t.Fatalf("%s, byte %d is another: no error", p.Name, i)
				}
			}
		}
		fixture.Must(t, bucket.Put(t.Context(), p.Name, contents[p.Name]))
		fixture.Must(t, place.Put(t.Context(), p.Name, contents[p.Name]))
	}
	for _, from := range []backup.Store{place, bucket} {
		if got, _, err := read(&exported{place: from, manifest: &m, key: key, table: table}, loader.Position{}); err != nil || !slices.Equal(got, keys) {
			t.Errorf("%q, %v", got, err)
		}
	}
	// Whoever passes over a file that cannot be read does not lose the rest unnoticed.
	if format == export.CSV {
		other := &exported{place: bucket, manifest: &m, key: "nowhere", table: table}
		var last error
		for _, err := range other.rows(t.Context(), loader.Position{}) {
			last = err
		}
		if last == nil || errors.Is(last, percolator.ErrInvalidArgument) {
			t.Errorf("%v", last)
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
