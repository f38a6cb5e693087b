package files_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// exported writes lines to a table, and exports it.
func exported(t testing.TB, lines []line, o export.Options) (files []string) {
	t.Helper()
	env, ctx := percolatortest.New(t, schema), fixture.Context(t)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		for _, l := range lines {
			row := l.row()
			for _, c := range row.Cells {
				if err := tx.Set(percolator.Cell{Table: "t", Row: row.Key, Column: c.Column}, c.Value); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	dir := t.TempDir()
	o.Table = "t"
	m, err := export.Run(ctx, env.Client, backup.Dir(dir), o)
	fixture.Must(t, err)
	for _, p := range m.Parts {
		files = append(files, filepath.Join(dir, p.Name))
	}
	return files
}

// values are what a line holds, by columns, as readers print them: numbers beyond those of
// JavaScript as text, times in microseconds, bytes in hexadecimal.
func (l line) values() map[string]any {
	v := map[string]any{"row": l.Row, "small": float64(l.Small)}
	if l.Int != nil {
		v["int"] = fmt.Sprint(*l.Int)
	}
	if l.Float != nil {
		v["float"] = fmt.Sprint(*l.Float + 0) // there is one zero
	}
	if l.Bool != nil {
		v["bool"] = *l.Bool
	}
	if l.Time != nil {
		v["time"] = fmt.Sprint(*l.Time)
	}
	if l.String != nil {
		v["string"] = *l.String
	}
	if l.Bytes != nil {
		v["bytes"] = fmt.Sprintf("%x", l.Bytes)
	}
	for name, value := range l.Columns {
		v[name] = fmt.Sprintf("%x", value)
	}
	return v
}

// The standard library reads exports of JSON lines.
func TestJSONOfExports(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "key"} {
		testJSONOfExports(t, key)
	}
}

func testJSONOfExports(t *testing.T, key string) {
	t.Helper()
	lines, n := linesOf(300), 0
	for _, name := range exported(t, lines, export.Options{Format: export.JSONLines, Key: key, PartBytes: 4 << 10}) {
		b, err := os.ReadFile(name)
		fixture.Must(t, err)
		for printed := range bytes.Lines(b) {
			var got struct {
				Row, Key string
				Columns  struct {
					Int, Small *int64
					Float      any
					Bool       *bool
					Time       *time.Time
					String     *string
					Bytes      struct{ Base64 []byte }
					Name0      *string
				}
			}
			fixture.Must(t, json.Unmarshal(printed, &got))
			if key != "" {
				got.Row = got.Key
				fixture.Must(t, json.Unmarshal(printed, &got.Columns))
			}
			l, c := lines[n], got.Columns
			var at *time.Time
			if l.Time != nil {
				at = new(time.UnixMicro(*l.Time).UTC())
			}
			var name *string
			if v, ok := l.Columns["name0"]; ok {
				name = new(string(v))
			}
			if got.Row != l.Row || *c.Small != int64(l.Small) || !reflect.DeepEqual(c.Int, l.Int) || !reflect.DeepEqual(c.Bool, l.Bool) || !reflect.DeepEqual(c.Time, at) ||
				!reflect.DeepEqual(c.String, l.String) || !bytes.Equal(c.Bytes.Base64, l.Bytes) || !reflect.DeepEqual(c.Name0, name) ||
				(l.Float == nil) != (c.Float == nil) || l.Float != nil && !math.IsInf(*l.Float, 0) && *l.Float != c.Float {
				t.Fatalf("row %d is %s, want %+v", n, printed, l)
			}
			n++
		}
	}
	if n != len(lines) {
		t.Errorf("%d rows of %d", n, len(lines))
	}
}

// Other programs read what exports write, and print each row as an object.
func TestForeignReaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o      export.Options
		script string
	}{
		"hyparquet":                {export.Options{}, "read_hyparquet.mjs"},
		"DuckDB, Parquet":          {export.Options{}, "read_duckdb.mjs"},
		"DuckDB, JSON lines":       {export.Options{Format: export.JSONLines}, "read_duckdb.mjs"},
		"DuckDB, flat JSON lines":  {export.Options{Format: export.JSONLines, Key: "key"}, "read_duckdb.mjs"},
		"node.js, JSON lines":      {export.Options{Format: export.JSONLines}, "read_json.mjs"},
		"node.js, flat JSON lines": {export.Options{Format: export.JSONLines, Key: "key"}, "read_json.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(filepath.Join("testdata", c.script))
			fixture.Must(t, err)
			lines := linesOf(300)
			if c.script == "read_json.mjs" { // whose numbers are doubles
				for i, l := range lines {
					if l.Int != nil && (*l.Int == math.MinInt64 || *l.Int == math.MaxInt64) {
						lines[i].Int = nil
					}
				}
			}
			n := 0
			c.o.PartBytes = 4 << 10
			for printed := range strings.Lines(node(t, string(script), exported(t, lines, c.o)...)) {
				var got map[string]any
				if err := json.Unmarshal([]byte(printed), &got); err != nil {
					t.Fatalf("%v: %s", err, printed)
				}
				maps.DeleteFunc(got, func(_ string, v any) bool { return v == nil })
				if n == len(lines) || !reflect.DeepEqual(got, lines[n].values()) {
					t.Fatalf("row %d is\n%v, want\n%v", n, got, lines[min(n, len(lines)-1)].values())
				}
				n++
			}
			if n != len(lines) {
				t.Errorf("%d rows of %d", n, len(lines))
			}
		})
	}
}
