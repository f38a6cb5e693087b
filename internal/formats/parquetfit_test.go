package formats

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

// parquetWith is a file with a schema and rows of its leaves.
func parquetWith(t testing.TB, schema parquet.Node, rows ...parquet.Row) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[any](&b, parquet.NewSchema("schema", schema))
	_, err := w.WriteRows(rows)
	fixture.Must(t, err)
	fixture.Must(t, w.Close())
	return b.Bytes()
}

// A map is one whatever its parts are called, and however they are nested.
func TestParquetMapsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	text, binary := parquet.String(), parquet.Leaf(parquet.ByteArrayType)
	entry := func(key, value parquet.Node) parquet.Node { return parquet.Group{"key": key, "value": value} }
	for name, c := range map[string]struct {
		annotated bool
		node      parquet.Node
	}{
		"Arrow, Spark, DuckDB":         {true, parquet.Optional(parquet.Group{"key_value": parquet.Repeated(entry(text, parquet.Optional(binary)))})},
		"Hive":                         {true, parquet.Optional(parquet.Group{"map": parquet.Repeated(entry(text, parquet.Optional(binary)))})},
		"arrow-rs":                     {true, parquet.Optional(parquet.Group{"entries": parquet.Repeated(parquet.Group{"keys": text, "values": parquet.Optional(binary)})})},
		"with optional keys":           {true, parquet.Optional(parquet.Group{"bag": parquet.Repeated(entry(parquet.Optional(text), parquet.Optional(binary)))})},
		"required":                     {true, parquet.Group{"key_value": parquet.Repeated(entry(text, binary))}},
		"without annotation, as Trino": {false, parquet.Optional(parquet.Group{"map": parquet.Repeated(entry(text, binary))})},
		"BigQuery, repeated":           {false, parquet.Repeated(entry(text, binary))},
		"BigQuery, a list":             {false, parquet.Group{"list": parquet.Repeated(parquet.Group{"element": entry(text, binary)})}},
		"a list with optional structs": {false, parquet.Optional(parquet.List(parquet.Optional(entry(text, parquet.Optional(binary)))))},
	} {
		schema := parquet.NewSchema("schema", parquet.Group{rowName: parquet.String(), cellsName: c.node})
		var leaves []parquet.LeafColumn
		for _, path := range schema.Columns() {
			leaf, _ := schema.Lookup(path...)
			leaves = append(leaves, leaf)
		}
		rows := []parquet.Row{
			{at(leaves[0], 0, "x"), at(leaves[0], 1, "y"), at(leaves[1], 0, "1"), at(leaves[1], 1, "2"), at(leaves[2], 0, "a")},
			{parquet.NullValue().Level(0, 0, 0), parquet.NullValue().Level(0, 0, 1), at(leaves[2], 0, "b")},
		}
		if leaves[0].MaxRepetitionLevel != 1 {
			t.Fatalf("%s: %v", name, schema)
		}
		file := parquetWith(t, parquet.Group{rowName: parquet.String(), cellsName: c.node}, rows...)
		if c.annotated { // the library writes only maps that are called as it calls them
			file = changed(t, file, func(m *format.FileMetaData) {
				i := slices.IndexFunc(m.Schema, func(e format.SchemaElement) bool { return e.Name == cellsName })
				m.Schema[i].ConvertedType.V, m.Schema[i].ConvertedType.Valid = deprecated.Map, true
			})
		}
		got, err := readParquet(testTable(), file)
		if want := []Row{{"a", []Cell{{"x", []byte("1")}, {"y", []byte("2")}}}, {"b", nil}}; err != nil || !slices.EqualFunc(got, want, sameRow) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// at is a value that is there.
func at(leaf parquet.LeafColumn, repetition int, value string) parquet.Value {
	return parquet.ByteArrayValue([]byte(value)).Level(repetition, leaf.MaxDefinitionLevel, leaf.ColumnIndex)
}

// Numbers and times of other widths and units have the same values.
func TestParquetTypesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 2, 29, 23, 59, 58, 0, time.UTC)
	stored := func(at time.Time) []byte {
		b, err := values.EncodeTime(at)
		fixture.Must(t, err)
		return b
	}
	spark := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, 86398e9), 2460370) // nanoseconds of the day, and its Julian number
	var julian deprecated.Int96
	for i := range julian {
		julian[i] = binary.LittleEndian.Uint32(spark[4*i:])
	}
	for what, c := range map[string]struct {
		column string
		node   parquet.Node
		value  parquet.Value
		want   []byte // nil: the row is refused
	}{
		"INT32":                    {"int", parquet.Leaf(parquet.Int32Type), parquet.Int32Value(-7), values.EncodeInt64(-7)},
		"INT(8)":                   {"int", parquet.Int(8), parquet.Int32Value(-7), values.EncodeInt64(-7)},
		"INT(64)":                  {"ordered", parquet.Int(64), parquet.Int64Value(-7), values.EncodeOrderedInt64(-7)},
		"UINT(32)":                 {"int", parquet.Uint(32), parquet.Int32Value(-1), values.EncodeInt64(1<<32 - 1)},
		"UINT(64)":                 {"int", parquet.Uint(64), parquet.Int64Value(1<<63 - 1), values.EncodeInt64(1<<63 - 1)},
		"UINT(64) from 2^63 on":    {"int", parquet.Uint(64), parquet.Int64Value(-1 << 63), nil},
		"milliseconds":             {"time", parquet.Timestamp(parquet.Millisecond), parquet.Int64Value(at.UnixMilli()), stored(at)},
		"microseconds":             {"time", parquet.Timestamp(parquet.Microsecond), parquet.Int64Value(at.UnixMicro()), stored(at)},
		"nanoseconds without zone": {"time", parquet.TimestampAdjusted(parquet.Nanosecond, false), parquet.Int64Value(at.UnixNano()), stored(at)},
		"a date":                   {"time", parquet.Date(), parquet.Int32Value(-1), stored(time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC))},
		"INT96":                    {"time", parquet.Leaf(parquet.Int96Type), parquet.Int96Value(julian), stored(at)},
		"a date that is too far":   {"time", parquet.Date(), parquet.Int32Value(1 << 30), nil},
		"seconds of the year 3000": {"time", parquet.Timestamp(parquet.Millisecond), parquet.Int64Value(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()), nil},
	} {
		file := parquetWith(t, parquet.Group{"row": parquet.String(), c.column: parquet.Optional(c.node)}, func() parquet.Row {
			values := parquet.Row{parquet.ByteArrayValue([]byte("r")).Level(0, 0, 0), c.value.Level(0, 1, 1)}
			if c.column < rowName {
				values = parquet.Row{c.value.Level(0, 1, 0), parquet.ByteArrayValue([]byte("r")).Level(0, 0, 1)}
			}
			return values
		}())
		got, err := readParquet(testTable(), file)
		switch {
		case c.want == nil:
			if !errors.Is(err, model.ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "row r: ") {
				t.Errorf("%s: %q, %v", what, got, err)
			}
		case err != nil || len(got) != 1 || !sameRow(got[0], Row{"r", []Cell{{c.column, c.want}}}):
			t.Errorf("%s: %q, %v, want %q", what, got, err, c.want)
		}
	}
}

// The key may be another column, and a number. One that the table declares is a column as well.
func TestParquetWithAnotherKey(t *testing.T) {
	t.Parallel()
	type line struct {
		ID     uint64  `parquet:"id"`
		Int    *int32  `parquet:"int,optional"`
		String string  `parquet:"string"`
		Float  float64 `parquet:"float"`
	}
	n := int32(-7)
	file := parquetOf(t, line{ID: 1<<64 - 1, Int: &n, String: "x"}, line{String: "y"})
	zero := Cell{"float", values.EncodeFloat64(0)}
	seven := Cell{"int", values.EncodeInt64(-7)}
	both := tableOf(model.ColumnSchema{Name: "int", Type: model.TypeInt64}, model.ColumnSchema{Name: "string", Type: model.TypeString}, model.ColumnSchema{Name: "float", Type: model.TypeFloat64})
	read := func(key string) (list []string) {
		rows, err := both.ReadParquet(bytes.NewReader(file), int64(len(file)), key)
		if err != nil {
			return []string{err.Error()}
		}
		for r, err := range rows {
			if err != nil {
				list = append(list, err.Error())
			} else {
				list = append(list, fmt.Sprintf("%q", r))
			}
		}
		return list
	}
	x, y := Cell{"string", []byte("x")}, Cell{"string", []byte("y")}
	if got, want := read("id"), []string{fmt.Sprintf("%q", Row{"18446744073709551615", []Cell{seven, x, zero}}), fmt.Sprintf("%q", Row{"0", []Cell{y, zero}})}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for key, want := range map[string]string{
		"string":  `the file has column "id"`,
		"int":     `the file has column "id"`,
		"float":   `column "float" is DOUBLE, and what fits is BYTE_ARRAY, STRING, ENUM, JSON, BSON or FIXED_LEN_BYTE_ARRAY or an integer`,
		"nowhere": `column "nowhere" of the row key is missing`,
		"":        `column "row" of the row key is missing`,
	} {
		if got := read(key); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %s", key, got, want)
		}
	}
	both = tableOf(model.ColumnSchema{Name: "int", Type: model.TypeInt64}, model.ColumnSchema{Name: "string", Type: model.TypeString}, model.ColumnSchema{Name: "float", Type: model.TypeFloat64},
		model.ColumnSchema{Name: "id"})
	file = parquetOf(t, struct {
		ID  string `parquet:"id"`
		Int int32  `parquet:"int"`
	}{"k", 7})
	if got, want := read("id"), []string{fmt.Sprintf("%q", Row{"k", []Cell{{"id", []byte("k")}, {"int", values.EncodeInt64(7)}}})}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	file = parquetOf(t, struct {
		Int *int32 `parquet:"int,optional"`
	}{})
	if got := read("int"); len(got) != 1 || got[0] != "row 1: invalid argument: it has no key" {
		t.Errorf("a row without a key: %q", got)
	}
}
