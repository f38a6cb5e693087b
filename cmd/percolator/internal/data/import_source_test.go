package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
)

// A file that changes while it is read ends the import: its rows are neither those before nor those
// after.
func TestRowsOfAFileThatChanges(t *testing.T) {
	t.Parallel()
	info, _ := catalog.New(&percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}).UserTable("t")
	for what, change := range map[string]func(path string) error{
		"cut off":    func(path string) error { return os.Truncate(path, 7) },
		"longer":     func(path string) error { return os.Truncate(path, 100) },
		"of another": func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
	} {
		s := importSource{from: filepath.Join(t.TempDir(), "rows.csv")}
		fixture.Must(t, os.WriteFile(s.from, []byte("row,a\nr,x\ns,y\n"), 0o600))
		rows, _, closeFile, err := s.openRows(formats.NewTable(info))
		fixture.Must(t, err)
		var got []string
		for row, err := range rows {
			if err != nil {
				row.Key = err.Error()
			}
			if got = append(got, row.Key); len(got) == 1 {
				fixture.Must(t, change(s.from))
			}
		}
		if !slices.Equal(got, []string{"r", "s", "the file was changed while it was read"}) {
			t.Errorf("%s: %q", what, got)
		}
		closeFile()
	}
}

// An import of a file goes on behind each of its rows; lines that cannot be read count for nothing.
func TestRowsOfAFileBehindAPosition(t *testing.T) {
	t.Parallel()
	info, _ := catalog.New(&percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}).UserTable("t")
	for name, content := range map[string]string{
		"rows.csv":   "\ufeffid,name\r\na,\"x\r\ny\"\r\nwrong\r\nb,\r\n\"c\",z\r\n",
		"rows.jsonl": "{\"id\": \"a\", \"name\": \"x\"}\n\n{\"name\": \"wrong\"}\n{\"id\": \"b\", \"name\": null}\n{\"id\": \"c\"}\n",
	} {
		s := importSource{from: filepath.Join(t.TempDir(), name), key: "id"}
		fixture.Must(t, os.WriteFile(s.from, []byte(content), 0o600))
		fixture.Must(t, s.check())
		file, stat, err := s.openFile()
		fixture.Must(t, err)
		rows, err := rowsIn(formats.NewTable(info), s.format(), file, stat.Size(), s.key)
		fixture.Must(t, err)
		source := replay(rows)
		for from, want := range [][]string{{"a", "failed", "b", "c"}, {"failed", "b", "c"}, {"failed", "c"}, {"failed"}} {
			var got []string
			for item, err := range source(t.Context(), loader.Position{Items: int64(from)}) {
				if err != nil {
					item.Value.Row = "failed"
				}
				got = append(got, item.Value.Row)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s behind %d rows: %q, want %q", name, from, got, want)
			}
		}
		fixture.Must(t, file.Close())
	}
}

// --key is for files, and a directory is an export whatever it is called.
func TestSourcesOfImports(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "people.csv")
	fixture.Must(t, os.Mkdir(dir, 0o700))
	for s, fine := range map[importSource]bool{
		{from: "x.csv"}: true, {from: "x.csv", key: "id"}: true, {from: "x.jsonl", key: "id"}: true, {from: "x.parquet", key: "id"}: true, {from: dir}: true, {from: "gs://bucket/x"}: true,
		{from: dir, key: "id"}: false, {from: "gs://bucket/x.csv", key: "id"}: false, {from: "bigtable:x", mapping: "m", key: "id"}: false, {from: "x.csv.gz"}: false, {from: "csv"}: false, {from: "x."}: false,
	} {
		if err := s.check(); (err == nil) != fine {
			t.Errorf("%s: %v", fmt.Sprint(s), err)
		}
	}
}
