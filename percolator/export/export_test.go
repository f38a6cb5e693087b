package export_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// newEnv has a table with declared columns, of which rows were written, and then changed.
func newEnv(t testing.TB, rows int) (env *percolatortest.Env, before tso.Timestamp) {
	s := fixture.Schema()
	s.Tables = append(s.Tables, percolator.Table{Name: "typed", Columns: []percolator.ColumnSchema{
		{Name: "name", Type: percolator.TypeString}, {Name: "age", Type: percolator.TypeInt64}, {Name: "raw"}, {Name: "tag:*", Type: percolator.TypeString}}})
	env = percolatortest.New(t, s)
	ctx := fixture.Context(t)
	for from := 0; from < rows; from += 500 {
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			for i := from; i < min(from+500, rows); i++ {
				for column, value := range cells(i) {
					if err := tx.Set(percolator.Cell{Table: "typed", Row: fixture.Key(i), Column: column}, value); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	fixture.Must(t, env.Client.Flush(ctx))
	before, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		fixture.Must(t, tx.Delete(percolator.Cell{Table: "typed", Row: fixture.Key(0), Column: "name"}))
		return tx.Set(percolator.Cell{Table: "typed", Row: "later", Column: "name"}, []byte("x"))
	}))
	return env, before
}

func cells(i int) map[string][]byte {
	return map[string][]byte{"name": fmt.Append(nil, "name ", i), "age": []byte{0, 0, 0, 0, 0, 0, byte(i >> 8), byte(i)}, "raw": {0xff, byte(i)}, "tag:a": []byte("é")}
}

// read reads what an export has written, in order.
func read(t testing.TB, env *percolatortest.Env, dir string, m *export.Manifest) (rows []formats.Row) {
	t.Helper()
	table := formats.NewTable(env.Client.Engine().Meta.Catalog.Load().Tables[m.Table])
	for _, p := range m.Parts {
		b, err := os.ReadFile(filepath.Join(dir, p.Name))
		fixture.Must(t, err)
		from := len(rows)
		var stored iter.Seq2[formats.Row, error]
		switch m.Format {
		case export.JSONLines:
			stored = table.ReadJSON(bytes.NewReader(b), m.Key)
		case export.CSV:
			stored, err = table.ReadCSV(bytes.NewReader(b), m.Key)
		default:
			stored, err = table.ReadParquet(bytes.NewReader(b), int64(len(b)), "")
		}
		fixture.Must(t, err)
		for row, err := range stored {
			fixture.Must(t, err)
			rows = append(rows, row)
		}
		if of := rows[from:]; int64(len(of)) != p.Rows || of[0].Key != string(p.First) || of[len(of)-1].Key != string(p.Last) || int64(len(b)) != p.Bytes {
			t.Errorf("%s has %d rows, %+v", p.Name, len(of), p)
		}
	}
	return rows
}

func TestExportHasEveryRowOfItsSnapshot(t *testing.T) {
	t.Parallel()
	const rows = 700
	env, before := newEnv(t, rows)
	ctx := fixture.Context(t)
	for _, o := range []export.Options{{Format: export.JSONLines}, {Format: export.JSONLines, Key: "id"}, {Format: export.Parquet}, {Format: export.CSV, Columns: []string{"name", "tag:a", "age"}}} {
		dir, format, width := t.TempDir(), o.Format, 4
		o.Table, o.AsOf, o.PartBytes = "typed", before, 4<<10
		if len(o.Columns) > 0 {
			width = len(o.Columns)
		}
		m, err := export.Run(ctx, env.Client, backup.Dir(dir), o)
		fixture.Must(t, err)
		got := read(t, env, dir, m)
		if len(got) != rows || m.Total.Rows != rows || m.Total.Values != int64(width)*rows || m.Total.Mistyped != 0 || m.Snapshot != before || len(m.Parts) < 5 {
			t.Errorf("%s: %d rows, %+v in %d files", format, len(got), m.Total, len(m.Parts))
		}
		for i, row := range got {
			want := cells(i)
			if row.Key != fixture.Key(i) || len(row.Cells) != width || slices.ContainsFunc(row.Cells, func(c formats.Cell) bool { return !bytes.Equal(c.Value, want[c.Column]) }) {
				t.Fatalf("%s: row %d is %q", format, i, row)
			}
		}
		files, err := backup.Dir(dir).List(ctx, "")
		if err != nil || len(files) != len(m.Parts)+1 {
			t.Errorf("%d files beside the manifest, %v, want %d", len(files)-1, err, len(m.Parts))
		}
		_, err = export.Run(ctx, env.Client, backup.Dir(dir), o)
		fixture.WantErr(t, err, export.ErrComplete)
	}
	holds, err := admin.New(env.Client).Holds(ctx)
	if err != nil || len(holds) != 0 {
		t.Errorf("holds that are left: %v, %v", holds, err)
	}
}

// Ranges of few rows share files: there are no more than readers.
func TestSmallRangesShareFiles(t *testing.T) {
	t.Parallel()
	const rows, readers = 1500, 3
	env, before := newEnv(t, rows)
	ctx := fixture.Context(t)
	ranges, err := env.Client.Engine().Reads.SampleEvenly(ctx, "typed", 1000)
	fixture.Must(t, err)
	for _, size := range []int64{64 << 20, 8 << 10} {
		dir := t.TempDir()
		m, err := export.Run(ctx, env.Client, backup.Dir(dir), export.Options{Table: "typed", AsOf: before, Concurrency: readers, PartBytes: size})
		fixture.Must(t, err)
		got, bytes := read(t, env, dir, m), int64(0)
		for i, row := range got {
			if row.Key != fixture.Key(i) {
				t.Fatalf("row %d of %d is %s", i, rows, row.Key)
			}
			bytes += int64(len(row.Key))
			for _, c := range row.Cells {
				bytes += int64(len(c.Column) + len(c.Value))
			}
		}
		for i, p := range m.Parts[1:] {
			if string(p.First) <= string(m.Parts[i].Last) {
				t.Errorf("%s begins at %s, and %s ends at %s", p.Name, p.First, m.Parts[i].Name, m.Parts[i].Last)
			}
		}
		// Whoever helps leaves a file that is not full behind, and makes at least one.
		if most := 2*int(bytes/size) + readers; len(m.Parts) > most || len(got) != rows {
			t.Errorf("%d rows of %d ranges in %d files, at most %d", len(got), len(ranges)+1, len(m.Parts), most)
		}
	}
}

// An export whose place fails leaves no manifest and no hold, and is made again.
func TestInterruptedExport(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(t, 50)
	ctx := fixture.Context(t)
	place := &failing{Store: backup.Dir(t.TempDir())}
	place.puts.Store(3)
	_, err := export.Run(ctx, env.Client, place, export.Options{Table: "typed", PartBytes: 1 << 10, Concurrency: 1})
	fixture.WantErr(t, err, os.ErrPermission)
	place.puts.Store(1000)
	m, err := export.Run(ctx, env.Client, place, export.Options{Table: "typed", PartBytes: 1 << 10, Columns: []string{"age"}})
	if err != nil || m.Total.Rows != 50 || m.Total.Values != 50 {
		t.Errorf("%+v, %v", m, err)
	}
	if holds, err := admin.New(env.Client).Holds(ctx); err != nil || len(holds) != 0 {
		t.Errorf("holds that are left: %v, %v", holds, err)
	}
}

// A column that does not exist is refused before the place is touched.
func TestExportOfAMissingColumn(t *testing.T) {
	t.Parallel()
	env, before := newEnv(t, 5)
	ctx := fixture.Context(t)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "u", Row: "r", Column: "there"}, []byte("x"))
	}))
	for _, o := range []export.Options{{Table: "typed", Columns: []string{"name", "nmae"}, AsOf: before}, {Table: "u", Columns: []string{"there", "theer"}}} {
		place := backup.Dir(t.TempDir())
		const left = "export-0123456789ab.json"
		fixture.Must(t, place.Put(ctx, left, nil))
		_, err := export.Run(ctx, env.Client, place, o)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		if names, err := place.List(ctx, ""); err != nil || !slices.Equal(names, []string{left}) {
			t.Errorf("%s: %v, %v", o.Table, names, err)
		}
		o.Columns = o.Columns[:1]
		_, err = export.Run(ctx, env.Client, place, o)
		fixture.Must(t, err)
	}
	if holds, err := admin.New(env.Client).Holds(ctx); err != nil || len(holds) != 0 {
		t.Errorf("holds that are left: %v, %v", holds, err)
	}
}

// CSV is refused before the place is touched if it has no columns, and at a value that it does not
// hold, which the error names; Parquet has no other key.
func TestExportOfWhatCSVDoesNotHold(t *testing.T) {
	t.Parallel()
	env, before := newEnv(t, 5)
	ctx := fixture.Context(t)
	for want, o := range map[string]export.Options{
		`table "u" declares none: name the columns`:                                         {Table: "u", Format: export.CSV},
		"Key is for jsonl and csv":                                                          {Table: "typed", Format: export.Parquet, Key: "id"},
		`row row-000000: column "raw": the value is no bytes that CSV can hold (not UTF-8)`: {Table: "typed", Format: export.CSV, Columns: []string{"name", "raw"}, AsOf: before, Concurrency: 1},
		`row row-000000: column "name", by whose name the file has the row key`:             {Table: "typed", Format: export.JSONLines, Key: "name", AsOf: before, Concurrency: 1},
	} {
		place := backup.Dir(t.TempDir())
		_, err := export.Run(ctx, env.Client, place, o)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
		names, err := place.List(ctx, "")
		fixture.Must(t, err)
		if slices.Contains(names, "manifest.json") || o.AsOf == 0 && len(names) > 0 {
			t.Errorf("%v: %q", want, names)
		}
	}
}

type failing struct {
	backup.Store
	puts atomic.Int64 // that succeed
}

func (f *failing) Put(ctx context.Context, name string, data []byte) error {
	if f.puts.Add(-1) < 0 {
		return os.ErrPermission
	}
	return f.Store.Put(ctx, name, data)
}
