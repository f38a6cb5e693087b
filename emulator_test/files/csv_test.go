package files_test

import (
	stdcsv "encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/csv"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/export"
)

// textColumns are those of lines that CSV holds, behind the row key.
var textColumns = []string{"int", "float", "bool", "time", "string", "small"}

// textLines are lines without what CSV does not hold.
func textLines(n int) []line {
	lines := linesOf(n)
	for i, l := range lines {
		lines[i].Bytes, lines[i].Columns = nil, nil
		if l.String != nil {
			*l.String += []string{"", "\n", `"quoted"`, ", ", " "}[i%5]
		}
	}
	return lines
}

// fromText is the values of a record, as those of a line are.
func fromText(t *testing.T, record []string) map[string]any {
	t.Helper()
	got := map[string]any{"row": record[0]}
	for i, name := range textColumns {
		text := record[i+1]
		if text == "" {
			continue
		}
		switch got[name] = text; name {
		case "float", "small":
			f, err := strconv.ParseFloat(text, 64)
			fixture.Must(t, err)
			if got[name] = f; name == "float" {
				got[name] = fmt.Sprint(f)
			}
		case "bool":
			got[name] = text == "true"
		case "time":
			at, err := time.Parse(time.RFC3339Nano, text)
			fixture.Must(t, err)
			got[name] = fmt.Sprint(at.UnixMicro())
		}
	}
	return got
}

// Other programs read exports of CSV, field by field.
func TestReadersOfCSV(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(t *testing.T, name string) [][]string{"the standard library": recordsByGo, "arrow-go": recordsByArrow, "DuckDB": recordsByDuckDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, n := textLines(300), 0
			for _, file := range exported(t, lines, export.Options{Format: export.CSV, Columns: textColumns, PartBytes: 4 << 10}) {
				for _, record := range read(t, file) {
					if got := fromText(t, record); n == len(lines) || !reflect.DeepEqual(got, lines[n].values()) {
						t.Fatalf("row %d is\n%v, want\n%v", n, got, lines[min(n, len(lines)-1)].values())
					}
					n++
				}
			}
			if n != len(lines) {
				t.Errorf("%d rows of %d", n, len(lines))
			}
		})
	}
}

func recordsByGo(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open(name)
	fixture.Must(t, err)
	defer func() { _ = f.Close() }() // only read from
	records, err := stdcsv.NewReader(f).ReadAll()
	fixture.Must(t, err)
	if want := append([]string{"row"}, textColumns...); !slices.Equal(records[0], want) {
		t.Fatalf("the header is %q, want %q", records[0], want)
	}
	return records[1:]
}

func recordsByArrow(t *testing.T, name string) (records [][]string) {
	t.Helper()
	f, err := os.Open(name)
	fixture.Must(t, err)
	defer func() { _ = f.Close() }() // only read from
	var fields []arrow.Field
	for _, name := range append([]string{"row"}, textColumns...) {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true})
	}
	r := csv.NewReader(f, arrow.NewSchema(fields, nil), csv.WithHeader(true), csv.WithChunk(100))
	defer r.Release()
	for r.Next() {
		batch := r.RecordBatch()
		for i := range int(batch.NumRows()) {
			var record []string
			for j := range fields {
				record = append(record, batch.Column(j).(*array.String).Value(i))
			}
			records = append(records, record)
		}
	}
	if err := r.Err(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return records
}

func recordsByDuckDB(t *testing.T, name string) (records [][]string) {
	t.Helper()
	printed := node(t, `
import { DuckDBInstance } from '@duckdb/node-api'
const c = await (await DuckDBInstance.create(':memory:')).connect()
const rows = await c.runAndReadAll("FROM read_csv('" + process.argv[2] + "', header = true, all_varchar = true)")
for (const row of rows.getRowsJson()) console.log(JSON.stringify(row.map(v => v ?? '')))
`, name)
	for line := range strings.Lines(printed) {
		var record []string
		fixture.Must(t, json.Unmarshal([]byte(line), &record))
		records = append(records, record)
	}
	return records
}
