package formats

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

// Files of other programs are read as they write them by default. The table has the columns
//
//	id INT64, name STRING, size INT64, score FLOAT64, ok BOOL, at TIMESTAMP, zoned TIMESTAMP with a
//	zone, day DATE, doc JSON, raw BYTES
//
// and those of duckdb.* were written by DuckDB 1.5.6, with
//
//	COPY t TO 'duckdb.csv' (FORMAT CSV); COPY t TO 'duckdb.jsonl' (FORMAT JSON)
//
// The others are written by hand, from documentation:
//
//	bigquery.csv, .jsonl  bq extract, or EXPORT DATA with header=true. That NULL and "" differ in
//	                      CSV, and how it calls infinities, is uncertain
//	spark.csv             df.write.option("header", true).csv(…): the default has no header. at is a
//	                      TIMESTAMP_NTZ; the session has another time zone than UTC in row 1 alone
//	spark.jsonl           df.write.json(…), which leaves fields that are null out
//	pandas.csv            df.to_csv(…, index=False), size being an Int64
//	pandas.jsonl          df.to_json(…, orient="records", lines=True, date_format="iso"): the default
//	                      writes times as numbers, which are refused. Its NaN and infinities are null
func TestFilesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	const (
		ann   = "1: name=Ann \"A\", é\ntwo size=-7 score=0.5 ok=true at=2024-01-02T03:04:05.123456Z"
		milli = "1: name=Ann \"A\", é\ntwo size=-7 score=0.5 ok=true at=2024-01-02T03:04:05.123Z"
		three = "3: size=9007199254740993 score=1e+300"
		bob   = "2: name= score=Infinity ok=false at=2024-01-02T03:04:05Z"
		zoned = " zoned=2024-01-02T03:04:05.123456Z"
		day   = " day=2024-01-02T00:00:00Z"
	)
	for name, want := range map[string][]string{
		"bigquery.csv":   {ann + day + ` doc={"a":[1,null]}`, bob + " doc=null", three},
		"bigquery.jsonl": {ann + day + ` doc={"a":[1,null]}`, bob, "3: name=a<b&c size=9007199254740993 score=1e+300"},
		"spark.csv":      {strings.Replace(milli, ` "A"`, "", 1) + " zoned=2024-01-02T03:04:05.123Z" + day, bob + " zoned=2024-01-02T03:04:05Z", three},
		"spark.jsonl":    {milli + " zoned=2024-01-02T03:04:05.123Z" + day, bob + " zoned=2024-01-02T03:04:05Z", three},
		"pandas.csv":     {ann + zoned + day, strings.Replace(bob, " name=", "", 1), three},
		"pandas.jsonl":   {milli + " zoned=2024-01-02T03:04:05.123Z", strings.Replace(bob, " score=Infinity", "", 1), "3: name=a/b size=9007199254740993 score=1e+300"},
		"duckdb.csv":     {ann + zoned + day + ` doc={"a": [1, null]} raw=x`, bob + " doc=null", three + ` raw=\xFF\x00`},
		"duckdb.jsonl":   {ann + zoned + day + ` doc={"a":[1,null]} raw=x`, "line 2, row 2: invalid argument: byte 37 is not JSON", three + ` raw=\xFF\x00`}, // Infinity without quotes
	} {
		if got := readWritten(t, name); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func readWritten(t *testing.T, name string) (list []string) {
	t.Helper()
	table := tableOf(model.ColumnSchema{Name: "name", Type: model.TypeString}, model.ColumnSchema{Name: "size", Type: model.TypeInt64}, model.ColumnSchema{Name: "score", Type: model.TypeFloat64},
		model.ColumnSchema{Name: "ok", Type: model.TypeBool}, model.ColumnSchema{Name: "at", Type: model.TypeTime}, model.ColumnSchema{Name: "zoned", Type: model.TypeTime},
		model.ColumnSchema{Name: "day", Type: model.TypeTime}, model.ColumnSchema{Name: "doc", Type: model.TypeJSON}, model.ColumnSchema{Name: "raw"})
	f, err := os.Open(filepath.Join("testdata", name))
	fixture.Must(t, err)
	defer func() { _ = f.Close() }()
	var rows iter.Seq2[Row, error]
	if strings.HasSuffix(name, ".csv") {
		rows, err = table.ReadCSV(f, "id")
		fixture.Must(t, err)
	} else {
		rows = table.ReadJSON(f, "id")
	}
	for row, err := range rows {
		if err != nil {
			list = append(list, err.Error())
			continue
		}
		line := row.Key + ":"
		for _, c := range row.Cells {
			text, err := textOf(table.typeOf(c.Column), c.Value)
			fixture.Must(t, err)
			line += fmt.Sprintf(" %s=%s", c.Column, text)
		}
		list = append(list, line)
	}
	return list
}
