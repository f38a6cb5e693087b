package files_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

// kind is a type of Arrow, that of the column for which it is read, and what a number becomes
// there.
type kind struct {
	of     arrow.DataType
	column model.Type
	add    func(b array.Builder, x int64) any
}

// appender appends what is made of a number, and returns it as the column has it.
func appender[B interface{ Append(V) }, V any](make func(x int64) V, value func(v V) any) func(array.Builder, int64) any {
	return func(b array.Builder, x int64) any {
		v := make(x)
		b.(B).Append(v)
		return value(v)
	}
}

func integer[B interface{ Append(V) }, V int8 | int16 | int32 | int64 | uint8 | uint16 | uint32](of arrow.DataType) kind {
	return kind{of, model.TypeInt64, appender[B](func(x int64) V { return V(x) }, func(v V) any { return int64(v) })}
}

func text[B interface{ Append(V) }, V string | []byte](of arrow.DataType) kind {
	return kind{of, model.TypeBytes, appender[B](func(x int64) V { return V(fmt.Sprint(x)) }, func(v V) any { return []byte(v) })}
}

func moment(of *arrow.TimestampType, most int64) kind {
	return kind{of, model.TypeTime, appender[*array.TimestampBuilder](func(x int64) arrow.Timestamp { return arrow.Timestamp(x % most) },
		func(v arrow.Timestamp) any { return v.ToTime(of.Unit) })}
}

var kinds = []kind{
	integer[*array.Int8Builder, int8](arrow.PrimitiveTypes.Int8), integer[*array.Int16Builder, int16](arrow.PrimitiveTypes.Int16),
	integer[*array.Int32Builder, int32](arrow.PrimitiveTypes.Int32), integer[*array.Int64Builder, int64](arrow.PrimitiveTypes.Int64),
	integer[*array.Uint8Builder, uint8](arrow.PrimitiveTypes.Uint8), integer[*array.Uint16Builder, uint16](arrow.PrimitiveTypes.Uint16),
	integer[*array.Uint32Builder, uint32](arrow.PrimitiveTypes.Uint32),
	{arrow.PrimitiveTypes.Uint64, model.TypeInt64, appender[*array.Uint64Builder](func(x int64) uint64 { return uint64(x & math.MaxInt64) }, func(v uint64) any { return int64(v) })},
	moment(&arrow.TimestampType{Unit: arrow.Second, TimeZone: "UTC"}, 9e9), moment(&arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}, 9e12),
	moment(&arrow.TimestampType{Unit: arrow.Microsecond}, 9e15), moment(&arrow.TimestampType{Unit: arrow.Nanosecond}, math.MaxInt64),
	{arrow.FixedWidthTypes.Date32, model.TypeTime, appender[*array.Date32Builder](func(x int64) arrow.Date32 { return arrow.Date32(x % 100_000) }, func(v arrow.Date32) any { return v.ToTime() })},
	text[*array.StringBuilder, string](arrow.BinaryTypes.String), text[*array.LargeStringBuilder, string](arrow.BinaryTypes.LargeString),
	text[*array.BinaryBuilder, []byte](arrow.BinaryTypes.Binary),
	{&arrow.FixedSizeBinaryType{ByteWidth: 3}, model.TypeBytes, appender[*array.FixedSizeBinaryBuilder](func(x int64) []byte { return []byte{byte(x), byte(x >> 8), 0xff} }, func(v []byte) any { return v })},
	{arrow.FixedWidthTypes.Boolean, model.TypeBool, appender[*array.BooleanBuilder](func(x int64) bool { return x%2 == 0 }, func(v bool) any { return v })},
	{arrow.PrimitiveTypes.Float64, model.TypeFloat64, appender[*array.Float64Builder](func(x int64) float64 { return float64(x) / 8 }, func(v float64) any { return v })},
}

// Files of random types, with few and many nulls, pages, dictionaries, row groups and batches of
// any size, empty ones too, are read value for value.
func TestRandomFiles(t *testing.T) {
	t.Parallel()
	for _, seed := range fixture.Chosen(100, 1000) {
		d := rand.New(rand.NewPCG(uint64(seed), 7))
		file := newRandomFile(d)
		b := file.write(t, d)
		table, err := formats.TableOf(&model.Schema{Tables: []model.Table{{Name: "t", Columns: append(file.columns, model.ColumnSchema{Name: "m*"})}}}, "t")
		fixture.Must(t, err)
		rows, err := table.ReadParquet(bytes.NewReader(b), int64(len(b)), "")
		if err != nil {
			t.Fatalf("seed %d: %v: %v", seed, err, file.schema)
		}
		n := 0
		for row, err := range rows {
			if err != nil || n == len(file.rows) || !reflect.DeepEqual(row, file.rows[n]) {
				t.Fatalf("seed %d, row %d: %q, %v, want %q: %v", seed, n, row, err, file.rows[min(n, len(file.rows)-1)], file.schema)
			}
			n++
		}
		if n != len(file.rows) {
			t.Fatalf("seed %d: %d rows, want %d", seed, n, len(file.rows))
		}
	}
}

// randomFile has a row key, some columns, and perhaps a map or a list of pairs.
type randomFile struct {
	schema  *arrow.Schema
	kinds   map[string]kind
	nulls   map[string]float64 // the share of them
	columns []model.ColumnSchema
	rows    []formats.Row
}

func newRandomFile(d *rand.Rand) *randomFile {
	f := &randomFile{kinds: map[string]kind{}, nulls: map[string]float64{}}
	fields := []arrow.Field{{Name: "row", Type: arrow.BinaryTypes.String, Nullable: d.IntN(2) == 0}}
	for i := range 1 + d.IntN(6) {
		k, name := kinds[d.IntN(len(kinds))], fmt.Sprint("c", i)
		f.kinds[name], f.nulls[name] = k, []float64{0, 0.01, 0.5, 0.99, 1}[d.IntN(5)]
		f.columns = append(f.columns, model.ColumnSchema{Name: name, Type: k.column})
		fields = append(fields, arrow.Field{Name: name, Type: k.of, Nullable: true})
	}
	pair := arrow.StructOf(arrow.Field{Name: "key", Type: arrow.BinaryTypes.String, Nullable: true}, arrow.Field{Name: "value", Type: arrow.BinaryTypes.Binary, Nullable: true})
	switch d.IntN(4) {
	case 0, 1:
		fields = append(fields, arrow.Field{Name: "columns", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.Binary), Nullable: d.IntN(2) == 0})
	case 2:
		fields = append(fields, arrow.Field{Name: "columns", Type: arrow.ListOf(pair), Nullable: true})
	}
	f.schema = arrow.NewSchema(fields, nil)
	return f
}

func (f *randomFile) write(t *testing.T, d *rand.Rand) []byte {
	t.Helper()
	options := []arrowparquet.WriterProperty{
		arrowparquet.WithCompression(arrowCodecs[codecs[d.IntN(len(codecs))]]), arrowparquet.WithDictionaryDefault(d.IntN(2) == 0),
		arrowparquet.WithDataPageSize(int64(1 + d.IntN(2000))), arrowparquet.WithBatchSize(int64(1 + d.IntN(100))), arrowparquet.WithMaxRowGroupLength(int64(1 + d.IntN(400))),
		arrowparquet.WithDataPageVersion([]arrowparquet.DataPageVersion{arrowparquet.DataPageV1, arrowparquet.DataPageV2}[d.IntN(2)]),
		arrowparquet.WithDictionaryPageSizeLimit(int64(1 + d.IntN(3000))),
	}
	var to bytes.Buffer
	w, err := pqarrow.NewFileWriter(f.schema, &to, arrowparquet.NewWriterProperties(options...), pqarrow.DefaultWriterProps())
	fixture.Must(t, err)
	write := w.Write
	if d.IntN(2) == 0 {
		write = w.WriteBuffered
	}
	for range d.IntN(5) {
		b := array.NewRecordBuilder(memory.DefaultAllocator, f.schema)
		for range []int{0, 1, d.IntN(10), d.IntN(700)}[d.IntN(4)] {
			f.add(t, d, b)
		}
		fixture.Must(t, write(b.NewRecordBatch()))
	}
	fixture.Must(t, w.Close())
	return to.Bytes()
}

// add adds a row.
func (f *randomFile) add(t *testing.T, d *rand.Rand, b *array.RecordBuilder) {
	t.Helper()
	r := formats.Row{Key: fmt.Sprint("k", len(f.rows))}
	for i, field := range f.schema.Fields() {
		switch {
		case field.Name == "row":
			b.Field(i).(*array.StringBuilder).Append(r.Key)
		case field.Name == "columns" && field.Nullable && d.IntN(3) == 0, d.Float64() < f.nulls[field.Name]:
			b.Field(i).AppendNull()
		case field.Name == "columns":
			r.Cells = append(r.Cells, appendPairs(d, b.Field(i))...)
		default:
			x := int64(d.Uint64())
			if d.IntN(2) == 0 {
				x = int64(d.IntN(5)) // for dictionaries
			}
			k := f.kinds[field.Name]
			value, err := k.column.Encode(k.add(b.Field(i), x))
			fixture.Must(t, err)
			r.Cells = append(r.Cells, formats.Cell{Column: field.Name, Value: value})
		}
	}
	f.rows = append(f.rows, r)
}

// appendPairs appends a map, or a list of pairs.
func appendPairs(d *rand.Rand, b array.Builder) (cells []formats.Cell) {
	for j := range d.IntN(4) {
		cells = append(cells, formats.Cell{Column: fmt.Sprint("m", j), Value: fmt.Append(nil, d.IntN(9))})
	}
	if m, ok := b.(*array.MapBuilder); ok {
		m.Append(true)
		for _, c := range cells {
			m.KeyBuilder().(*array.StringBuilder).Append(c.Column)
			m.ItemBuilder().(*array.BinaryBuilder).Append(c.Value)
		}
		return cells
	}
	l := b.(*array.ListBuilder)
	l.Append(true)
	s := l.ValueBuilder().(*array.StructBuilder)
	for _, c := range cells {
		s.Append(true)
		s.FieldBuilder(0).(*array.StringBuilder).Append(c.Column)
		s.FieldBuilder(1).(*array.BinaryBuilder).Append(c.Value)
	}
	return cells
}
