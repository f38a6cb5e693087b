package formats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/percolator/model"
)

// tableOf is a table with declared columns.
func tableOf(columns ...model.ColumnSchema) *Table {
	c := catalog.New(&model.Schema{Tables: []model.Table{{Name: "t", Columns: columns}}})
	return NewTable(c.Tables["t"])
}

// testTable has a column of each type.
func testTable() *Table {
	return tableOf(model.ColumnSchema{Name: "bytes"}, model.ColumnSchema{Name: "string", Type: model.TypeString}, model.ColumnSchema{Name: "int", Type: model.TypeInt64},
		model.ColumnSchema{Name: "ordered", Type: model.TypeOrderedInt64}, model.ColumnSchema{Name: "float", Type: model.TypeFloat64},
		model.ColumnSchema{Name: "bool", Type: model.TypeBool}, model.ColumnSchema{Name: "time", Type: model.TypeTime}, model.ColumnSchema{Name: "doc", Type: model.TypeJSON},
		model.ColumnSchema{Name: "row", Type: model.TypeString}, model.ColumnSchema{Name: "n:*", Type: model.TypeInt64}, model.ColumnSchema{Name: "\xff"})
}

// testRows are rows with values of all kinds, and with such as are of none.
func testRows(t *rapid.T) []Row {
	var documents = []string{`{"a":[1,2.50,null]}`, `"x"`, `{"base64":"AA=="}`, `{"base64":1}`, `{"a":1,"a":2}`, `{`, "null"}
	value := func(t *rapid.T, column string) []byte {
		switch column {
		case "int", "ordered", "time", "n:1":
			return binary.BigEndian.AppendUint64(nil, rapid.Uint64().Draw(t, "n"))[rapid.IntRange(0, 1).Draw(t, "cut"):]
		case "bool":
			return []byte{rapid.ByteRange(0, 2).Draw(t, "b")}
		case "float":
			f := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e300})).Draw(t, "f")
			return values.EncodeFloat64(f)
		case "doc":
			return []byte(rapid.SampledFrom(documents).Draw(t, "doc"))
		}
		return rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "value")
	}
	columns := []string{"bytes", "string", "int", "float", "bool", "time", "doc", "ordered", "n:1", "row", "columns", "\xff", `"q`, "other", "é\n"}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Row {
		r := Row{Key: string(value(t, "bytes"))}
		for _, column := range rapid.SliceOfDistinct(rapid.SampledFrom(columns), rapid.ID).Draw(t, "columns") {
			r.Cells = append(r.Cells, Cell{column, value(t, column)})
		}
		return r
	}), 1, 100).Draw(t, "rows")
}

func sameRow(a, b Row) bool {
	byName := func(a, b Cell) int { return strings.Compare(a.Column, b.Column) }
	return a.Key == b.Key && slices.EqualFunc(slices.SortedFunc(slices.Values(a.Cells), byName), slices.SortedFunc(slices.Values(b.Cells), byName),
		func(a, b Cell) bool { return a.Column == b.Column && bytes.Equal(a.Value, b.Value) })
}

// all reads rows until the first error.
func all(rows iter.Seq2[Row, error]) (read []Row, err error) {
	for row, err := range rows {
		if err != nil {
			return read, err
		}
		read = append(read, row)
	}
	return read, nil
}

func TestJSONLinesRoundTrip(t *testing.T) {
	t.Parallel()
	table := testTable()
	rapid.Check(t, func(t *rapid.T) {
		rows := testRows(t)
		var b []byte
		for _, r := range rows {
			line, _ := table.AppendJSON(nil, r)
			if bytes.Count(line, []byte("\n")) != 1 || !json.Valid(line) {
				t.Fatalf("not a line of JSON: %q", line)
			}
			b = append(b, line...)
		}
		if got, err := all(table.ReadJSON(bytes.NewReader(b), "")); err != nil || !slices.EqualFunc(got, rows, sameRow) {
			t.Fatalf("%q, %v, want %q", got, err, rows)
		}
	})
}

func TestParquetRoundTrip(t *testing.T) {
	t.Parallel()
	table := testTable()
	rapid.Check(t, func(t *rapid.T) {
		rows := testRows(t)
		var b bytes.Buffer
		w := table.NewParquetWriter(&b)
		for _, r := range rows {
			if _, err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := readParquet(table, b.Bytes()); err != nil || !slices.EqualFunc(got, rows, sameRow) {
			t.Fatalf("%q, %v, want %q", got, err, rows)
		}
	})
}

func TestJSONLinesOfEachKind(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 3, 1, 12, 0, 0, 5, time.UTC)
	stored, _ := values.EncodeTime(at)
	row := Row{"r\xff", []Cell{{"int", values.EncodeInt64(math.MinInt64)}, {"float", values.EncodeFloat64(0.1)}, {"bool", []byte{1}}, {"time", stored}, {"n:1", values.EncodeInt64(7)},
		{"doc", []byte("{\n \"a\": 1\n}")}, {"other", []byte("é<")}, {"bytes", []byte{0xff}}, {"string", []byte("\"\n")}, {"\xff", nil}}}
	line, mistyped := testTable().AppendJSON(nil, row)
	want := `{"row":{"base64":"cv8="},"columns":{"int":-9223372036854775808,"float":0.1,"bool":true,"time":"2025-03-01T12:00:00.000000005Z","n:1":7,` +
		`"doc":{"a":1},"other":"é<","bytes":{"base64":"/w=="},"string":"\"\n","\"\\xff\"":""}}` + "\n"
	if string(line) != want || mistyped != 0 {
		t.Errorf("%s%d are mistyped, want\n%s", line, mistyped, want)
	}
}

// Documents that encoding/json takes and others do not come back as they were.
func TestDocumentsThatParsersRefuse(t *testing.T) {
	t.Parallel()
	table := testTable()
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, doc := range []string{`"\ud800"`, `{"a":"\udc00 \ud83d\ude00"}`, nested(maxLevels), nested(maxLevels + 1), nested(10_000), `["[` + strings.Repeat("[", 20_000) + `"]`, `{"a":1,"a":2}`} {
		want := Row{"r", []Cell{{"doc", []byte(doc)}}}
		line, mistyped := table.AppendJSON(nil, want)
		if got, err := table.ParseJSON(line); err != nil || !sameRow(got, want) || mistyped != 0 || !json.Valid(line) {
			t.Errorf("%.40s is %.40q, %v", doc, got, err)
		}
	}
}

// Programs on Windows begin a file with a byte order mark.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	rows, err := all(testTable().ReadJSON(strings.NewReader("\ufeff"+`{"row":"r","columns":{}}`+"\n"), ""))
	if err != nil || len(rows) != 1 || rows[0].Key != "r" {
		t.Errorf("%q, %v", rows, err)
	}
}

// What cannot be read is refused with the line and the key, and without what it holds.
func TestInvalidJSONLines(t *testing.T) {
	t.Parallel()
	table := testTable()
	for _, line := range []string{"secret", "[]", "{}", `{"row":"r"}`, `{"columns":{}}`, `{"row":1,"columns":{}}`, `{"row":"r","columns":{},"secret":1}`,
		`{"row":"r","columns":[]}`, `{"row":"r","columns":{}} {`, `{"row":"r","row":"r","columns":{}}`, `{"row":"r","columns":{"a":"secret","a":"secret"}}`,
		`{"row":"r","columns":{"int":"secret"}}`, `{"row":"r","columns":{"int":1.5}}`, `{"row":"r","columns":{"int":9223372036854775808}}`,
		`{"row":"r","columns":{"a":7}}`, `{"row":"r","columns":{"a":null}}`, `{"row":"r","columns":{"a":{"base64":"?secret"}}}`,
		`{"row":"r","columns":{"a":{"base64":1}}}`, `{"row":"r","columns":{"a":{"base64":"","b":1}}}`, `{"row":"r","columns":{"time":"secret"}}`,
		`{"row":"r","columns":{"float":"secret"}}`, `{"row":"r","columns":{"bool":0}}`, `{"row":"r","columns":{"\"x":""}}`, `{"row":"r","columns":{"a":"secret`} {
		_, err := all(table.ReadJSON(strings.NewReader("\n"+line+"\n"), ""))
		if !errors.Is(err, model.ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "line 2: ") && !strings.HasPrefix(err.Error(), "line 2, row r: ") {
			t.Errorf("%s: %v", line, err)
		}
		if err != nil && strings.Contains(err.Error(), `secret`) && !strings.Contains(line, `"secret":`) {
			t.Errorf("%s: the error holds what was stored: %v", line, err)
		}
	}
}

// A line that is cut off, and a value of another type, have a message from which one can mend them.
func TestInvalidJSONLinesSayWhatIsWanted(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"row":"r","columns":{"int":1}`:    "the line ends in the middle of a JSON object",
		`{"row":"r","columns":{"int":1,`:    "the line ends in the middle of a JSON object",
		`{"row":"r","columns":{"int":`:      "the line ends in the middle of a JSON object",
		`{"row":"r","columns":{"int":1]}`:   "is not JSON",
		`{"row":"r","columns":{"int":"x"}}`: `column "int": want a number without fraction, or {"base64": …}`,
		`{"row":"r","columns":{"bool":1}}`:  `column "bool": want true or false, or`,
	} {
		if _, err := testTable().ParseJSON([]byte(line)); !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// A value of a column whose type the table does not know is refused with what to do.
func TestJSONLinesOfUndeclaredColumns(t *testing.T) {
	t.Parallel()
	for want, table := range map[string]*Table{
		`column "stars": the value is neither a string nor base64, and table "t" declares no columns: list every column with its type under columns: of the table in the schema, a number as int64 or float64`: tableOf(),
		`column "stars": table "t" does not declare it: list it with its type under columns: of the table in the schema, a number as int64 or float64`:                                                         tableOf(model.ColumnSchema{Name: "more"}),
	} {
		if row, err := table.ParseJSON([]byte(`{"row":"r","columns":{"stars":5}}`)); !errors.Is(err, model.ErrInvalidArgument) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q, %v, want %s", row, err, want)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"row":"r","columns":{"int":1,"doc":{},"a":{"base64":""}}}`))
	table := testTable()
	f.Fuzz(func(t *testing.T, line []byte) {
		row, err := table.ParseJSON(line)
		if err != nil {
			return
		}
		again, _ := table.AppendJSON(nil, row)
		if back, err := table.ParseJSON(again); err != nil || !sameRow(row, back) {
			t.Errorf("%q became %q, %v", row, back, err)
		}
	})
}
