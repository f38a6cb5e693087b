package formats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/internal/model"
)

func number(of func(uint64) any, from func(any) (uint64, bool)) (func([]byte) (any, error), func(any) ([]byte, error)) {
	errType := errors.New("secret")
	return func(b []byte) (any, error) {
			if len(b) != 8 {
				return nil, errType
			}
			return of(binary.BigEndian.Uint64(b)), nil
		}, func(v any) ([]byte, error) {
			n, ok := from(v)
			if !ok {
				return nil, errType
			}
			return binary.BigEndian.AppendUint64(nil, n), nil
		}
}

// testTable has a column of each kind.
func testTable() *Table {
	columns := []Column{{Name: "bytes"}, {Name: "string", Kind: String}, {Name: "int", Kind: Int64}, {Name: "float", Kind: Float64},
		{Name: "bool", Kind: Bool}, {Name: "time", Kind: Timestamp}, {Name: "doc", Kind: JSON}, {Name: "row", Kind: String}, {Name: "\xff"}}
	set := func(i int, of func(uint64) any, from func(any) (uint64, bool)) {
		columns[i].Decode, columns[i].Encode = number(of, from)
	}
	set(2, func(n uint64) any { return int64(n) }, func(v any) (uint64, bool) { n, ok := v.(int64); return uint64(n), ok })
	set(3, func(n uint64) any { return math.Float64frombits(n) }, func(v any) (uint64, bool) { f, ok := v.(float64); return math.Float64bits(f), ok })
	set(4, func(n uint64) any { return n == 1 }, func(v any) (uint64, bool) {
		b, ok := v.(bool)
		if b {
			return 1, ok
		}
		return 0, ok
	})
	set(5, func(n uint64) any { return time.Unix(0, int64(n)) }, func(v any) (uint64, bool) {
		at, ok := v.(time.Time)
		return uint64(at.UnixNano()), ok
	})
	columns[6].Decode = func(b []byte) (any, error) {
		if !json.Valid(b) {
			return nil, errors.New("secret")
		}
		return b, nil
	}
	columns[6].Encode = func(v any) ([]byte, error) { return v.([]byte), nil }
	return NewTable(columns...)
}

// testRows are rows with values of all kinds, and with such as are of none.
func testRows(t *rapid.T) []Row {
	var documents = []string{`{"a":[1,2.50,null]}`, `"x"`, `{"base64":"AA=="}`, `{"base64":1}`, `{"a":1,"a":2}`, `{`, "null"}
	value := func(t *rapid.T, column string) []byte {
		switch column {
		case "int", "time":
			return binary.BigEndian.AppendUint64(nil, rapid.Uint64().Draw(t, "n"))[rapid.IntRange(0, 1).Draw(t, "cut"):]
		case "bool":
			return binary.BigEndian.AppendUint64(nil, rapid.Uint64Range(0, 1).Draw(t, "n"))
		case "float":
			f := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e300})).Draw(t, "f")
			return binary.BigEndian.AppendUint64(nil, math.Float64bits(f))
		case "doc":
			return []byte(rapid.SampledFrom(documents).Draw(t, "doc"))
		}
		return rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "value")
	}
	columns := []string{"bytes", "string", "int", "float", "bool", "time", "doc", "row", "columns", "\xff", `"q`, "other", "é\n"}
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
		r := table.NewJSONReader(bytes.NewReader(b))
		for _, want := range rows {
			if got, err := r.Read(); err != nil || !sameRow(got, want) {
				t.Fatalf("%q, %v, want %q", got, err, want)
			}
		}
		if _, err := r.Read(); err != io.EOF {
			t.Fatal(err)
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
		n := 0
		for got, err := range table.ReadParquet(bytes.NewReader(b.Bytes()), int64(b.Len())) {
			if err != nil || !sameRow(got, rows[n]) {
				t.Fatalf("%q, %v, want %q", got, err, rows[n])
			}
			n++
		}
		if n != len(rows) {
			t.Fatalf("%d of %d rows", n, len(rows))
		}
	})
}

func TestJSONLinesOfEachKind(t *testing.T) {
	t.Parallel()
	be := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	at := time.Date(2025, 3, 1, 12, 0, 0, 5, time.UTC)
	row := Row{"r\xff", []Cell{{"int", be(1 << 63)}, {"float", be(math.Float64bits(0.1))}, {"bool", be(1)}, {"time", be(uint64(at.UnixNano()))},
		{"doc", []byte("{\n \"a\": 1\n}")}, {"other", []byte("é<")}, {"bytes", []byte{0xff}}, {"string", []byte("\"\n")}, {"\xff", nil}}}
	line, mistyped := testTable().AppendJSON(nil, row)
	want := `{"row":{"base64":"cv8="},"columns":{"int":-9223372036854775808,"float":0.1,"bool":true,"time":"2025-03-01T12:00:00.000000005Z",` +
		`"doc":{"a":1},"other":"é<","bytes":{"base64":"/w=="},"string":"\"\n","\"\\xff\"":""}}` + "\n"
	if string(line) != want || mistyped != 0 {
		t.Errorf("%s%d are mistyped, want\n%s", line, mistyped, want)
	}
}

// What cannot be read is refused with the line, and without what it holds.
func TestInvalidJSONLines(t *testing.T) {
	t.Parallel()
	table := testTable()
	for _, line := range []string{"secret", "[]", "{}", `{"row":"r"}`, `{"columns":{}}`, `{"row":1,"columns":{}}`, `{"row":"r","columns":{},"secret":1}`,
		`{"row":"r","columns":[]}`, `{"row":"r","columns":{}} {`, `{"row":"r","row":"r","columns":{}}`, `{"row":"r","columns":{"a":"secret","a":"secret"}}`,
		`{"row":"r","columns":{"int":"secret"}}`, `{"row":"r","columns":{"int":1.5}}`, `{"row":"r","columns":{"int":9223372036854775808}}`,
		`{"row":"r","columns":{"a":7}}`, `{"row":"r","columns":{"a":null}}`, `{"row":"r","columns":{"a":{"base64":"?secret"}}}`,
		`{"row":"r","columns":{"a":{"base64":1}}}`, `{"row":"r","columns":{"a":{"base64":"","b":1}}}`, `{"row":"r","columns":{"time":"secret"}}`,
		`{"row":"r","columns":{"float":"secret"}}`, `{"row":"r","columns":{"bool":0}}`, `{"row":"r","columns":{"\"x":""}}`, `{"row":"r","columns":{"a":"secret`} {
		r := table.NewJSONReader(strings.NewReader("\n" + line + "\n"))
		_, err := r.Read()
		if !errors.Is(err, model.ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: %v", line, err)
		}
		if err != nil && strings.Contains(err.Error(), `secret`) && !strings.Contains(line, `"secret":`) {
			t.Errorf("%s: the error holds what was stored: %v", line, err)
		}
	}
}

func TestParquetOfAnotherSchema(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := NewTable(Column{Name: "int", Kind: String}, Column{Name: "more", Kind: String}).NewParquetWriter(&b)
	if _, err := w.Write(Row{"r", []Cell{{"more", []byte("x")}, {"else", []byte("y")}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read := func(table *Table, data []byte) (rows []Row, err error) {
		for r, err := range table.ReadParquet(bytes.NewReader(data), int64(len(data))) {
			if err != nil {
				return rows, err
			}
			rows = append(rows, r)
		}
		return rows, nil
	}
	if rows, err := read(testTable(), b.Bytes()); !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("a column of another type: %v, %v", rows, err)
	}
	if rows, err := read(testTable(), []byte("PAR1 no")); !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("no Parquet file: %v, %v", rows, err)
	}
	want := Row{"r", []Cell{{"else", []byte("y")}}}
	if rows, err := read(NewTable(Column{Name: "missing"}), b.Bytes()); err != nil || len(rows) != 1 || !sameRow(rows[0], want) {
		t.Errorf("%v, %v, want %v", rows, err, want)
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
