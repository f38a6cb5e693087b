package files_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/parquet-go/parquet-go"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// arrowSchema has the columns of line.
var arrowSchema = arrow.NewSchema([]arrow.Field{
	{Name: "row", Type: arrow.BinaryTypes.String},
	{Name: "int", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "float", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "bool", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "time", Type: arrow.FixedWidthTypes.Timestamp_us, Nullable: true},
	{Name: "string", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "bytes", Type: arrow.BinaryTypes.Binary, Nullable: true},
	{Name: "small", Type: arrow.PrimitiveTypes.Int32},
	{Name: "columns", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.Binary), Nullable: true},
}, nil)

// appendTo appends a value, or a null.
func appendTo[T any](value *T, add func(T), null func()) {
	if value == nil {
		null()
		return
	}
	add(*value)
}

func (f form) arrow(t testing.TB, lines []line) []byte {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrowSchema)
	defer b.Release()
	for _, l := range lines {
		b.Field(0).(*array.StringBuilder).Append(l.Row)
		appendTo(l.Int, b.Field(1).(*array.Int64Builder).Append, b.Field(1).AppendNull)
		appendTo(l.Float, b.Field(2).(*array.Float64Builder).Append, b.Field(2).AppendNull)
		appendTo(l.Bool, b.Field(3).(*array.BooleanBuilder).Append, b.Field(3).AppendNull)
		appendTo((*arrow.Timestamp)(l.Time), b.Field(4).(*array.TimestampBuilder).Append, b.Field(4).AppendNull)
		appendTo(l.String, b.Field(5).(*array.StringBuilder).Append, b.Field(5).AppendNull)
		if l.Bytes == nil {
			b.Field(6).AppendNull()
		} else {
			b.Field(6).(*array.BinaryBuilder).Append(l.Bytes)
		}
		b.Field(7).(*array.Int32Builder).Append(l.Small)
		m := b.Field(8).(*array.MapBuilder)
		if l.Columns == nil {
			m.AppendNull()
			continue
		}
		m.Append(true)
		for _, name := range slices.Sorted(maps.Keys(l.Columns)) {
			m.KeyBuilder().(*array.StringBuilder).Append(name)
			m.ItemBuilder().(*array.BinaryBuilder).Append(l.Columns[name])
		}
	}
	record := b.NewRecordBatch()
	defer record.Release()

	options := []arrowparquet.WriterProperty{
		arrowparquet.WithCompression(arrowCodecs[f.codec]), arrowparquet.WithDictionaryDefault(f.encoding == "dictionary"), arrowparquet.WithDataPageSize(1 << 10),
		arrowparquet.WithBatchSize(50), arrowparquet.WithMaxRowGroupLength(groupRows), arrowparquet.WithDataPageVersion(arrowparquet.DataPageV1),
	}
	if f.version == "2" {
		options = append(options, arrowparquet.WithDataPageVersion(arrowparquet.DataPageV2))
	}
	integers, texts, floats := arrowparquet.Encodings.Plain, arrowparquet.Encodings.Plain, arrowparquet.Encodings.Plain
	switch f.encoding {
	case "delta":
		integers, texts = arrowparquet.Encodings.DeltaBinaryPacked, arrowparquet.Encodings.DeltaByteArray
	case "delta of lengths":
		texts = arrowparquet.Encodings.DeltaLengthByteArray
	case "byte stream split":
		integers, floats = arrowparquet.Encodings.ByteStreamSplit, arrowparquet.Encodings.ByteStreamSplit
	}
	if f.encoding != "dictionary" {
		for name, encoding := range map[string]arrowparquet.Encoding{"int": integers, "small": integers, "time": integers, "float": floats, "row": texts, "string": texts,
			"bytes": texts, "columns.key_value.key": texts, "columns.key_value.value": texts} {
			options = append(options, arrowparquet.WithEncodingFor(name, encoding))
		}
	}
	var to bytes.Buffer
	w, err := pqarrow.NewFileWriter(arrowSchema, &to, arrowparquet.NewWriterProperties(options...), pqarrow.DefaultWriterProps())
	fixture.Must(t, err)
	fixture.Must(t, w.Write(record))
	fixture.Must(t, w.Close())
	return to.Bytes()
}

func (f form) parquetGo(t testing.TB, lines []line) []byte {
	t.Helper()
	options := []parquet.WriterOption{
		parquet.Compression(parquetGoCodecs[f.codec]), parquet.PageBufferSize(1 << 10), parquet.MaxRowsPerRowGroup(groupRows), parquet.DataPageVersion(int(f.version[0] - '0')),
		parquet.DefaultEncodingFor(parquet.ByteArray, &parquet.Plain), f.schema(),
	}
	var to bytes.Buffer
	w := parquet.NewGenericWriter[line](&to, options...)
	for _, l := range lines { // the library ends a page after a call
		_, err := w.Write([]line{l})
		fixture.Must(t, err)
	}
	fixture.Must(t, w.Close())
	return to.Bytes()
}

// schema is that of line, with encodings.
func (f form) schema() *parquet.Schema {
	encode := func(n parquet.Node) parquet.Node {
		integer, text := n.Type().Kind() == parquet.Int64 || n.Type().Kind() == parquet.Int32, n.Type().Kind() == parquet.ByteArray
		switch {
		case f.encoding == "dictionary" && n.Type().Kind() != parquet.Boolean:
			return parquet.Encoded(n, &parquet.RLEDictionary)
		case f.encoding == "dictionary":
			return parquet.Encoded(n, &parquet.RLE)
		case f.encoding == "delta" && integer:
			return parquet.Encoded(n, &parquet.DeltaBinaryPacked)
		case f.encoding == "delta" && text:
			return parquet.Encoded(n, &parquet.DeltaByteArray)
		case f.encoding == "delta of lengths" && text:
			return parquet.Encoded(n, &parquet.DeltaLengthByteArray)
		case f.encoding == "byte stream split" && (integer || n.Type().Kind() == parquet.Double):
			return parquet.Encoded(n, &parquet.ByteStreamSplit)
		}
		return parquet.Encoded(n, &parquet.Plain)
	}
	optional := func(n parquet.Node) parquet.Node { return parquet.Optional(encode(n)) }
	return parquet.NewSchema("line", parquet.Group{
		"row": encode(parquet.String()), "int": optional(parquet.Leaf(parquet.Int64Type)), "float": optional(parquet.Leaf(parquet.DoubleType)),
		"bool": optional(parquet.Leaf(parquet.BooleanType)), "time": optional(parquet.Timestamp(parquet.Microsecond)), "string": optional(parquet.String()),
		"bytes": optional(parquet.Leaf(parquet.ByteArrayType)), "small": encode(parquet.Leaf(parquet.Int32Type)),
		"columns": parquet.Optional(parquet.Map(encode(parquet.String()), encode(parquet.Leaf(parquet.ByteArrayType)))),
	})
}
