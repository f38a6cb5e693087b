package formats

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

// Numbers are what they were, whatever compresses them, in every row group.
func TestParquetOfEachCodec(t *testing.T) {
	t.Parallel()
	type line struct {
		others
		Int int64 `parquet:"int"`
	}
	const rows = 12_001
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd, &parquet.Lz4Raw} {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[line](&b, parquet.Compression(codec), parquet.MaxRowsPerRowGroup(4000))
		for i := range int64(rows) {
			_, err := w.Write([]line{{others{Row: fmt.Sprint(i)}, i / 100}})
			fixture.Must(t, err)
		}
		fixture.Must(t, w.Close())
		got, err := readParquet(testTable(), b.Bytes())
		if err != nil || len(got) != rows {
			t.Errorf("%s: %d rows, %v", codec, len(got), err)
		}
		wrong := 0
		for i, row := range got {
			if !sameRow(row, Row{fmt.Sprint(i), []Cell{{"int", values.EncodeInt64(int64(i / 100))}}}) {
				wrong++
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d rows are wrong", codec, wrong)
		}
	}
}

// changed is a file with other metadata.
func changed(t testing.TB, file []byte, change func(*format.FileMetaData)) []byte {
	t.Helper()
	b := bytes.NewBuffer(slices.Clone(file))
	fixture.Must(t, changeFooter(b, change))
	return b.Bytes()
}

// Files whose metadata promise another size than their pages have take no memory for it.
func TestParquetTakesNoMemoryForWhatIsNotThere(t *testing.T) {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[others](&b, parquet.Compression(&parquet.Zstd))
	_, err := w.Write([]others{{"r", map[string][]byte{"a": bytes.Repeat([]byte("x"), 10_000)}}})
	fixture.Must(t, err)
	fixture.Must(t, w.Close())
	for _, codec := range []format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Lz4Raw, format.LZO, format.Lz4, 9, -1} {
		file := changed(t, b.Bytes(), func(m *format.FileMetaData) {
			for i := range m.RowGroups[0].Columns {
				m.RowGroups[0].Columns[i].MetaData.Codec = codec
			}
		})
		got, allocated, err := allocates(file)
		if err == nil || allocated > 2<<20 {
			t.Errorf("%s: %d rows, %v, with %d bytes allocated", codec, len(got), err, allocated)
		}
	}
}

func allocates(file []byte) (rows []Row, n uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows, err = readParquet(testTable(), file)
	runtime.ReadMemStats(&after)
	return rows, after.TotalAlloc - before.TotalAlloc, err
}

// Counts that are not those of the rows are damage, with the name of the column.
func TestParquetWhoseCountsDiffer(t *testing.T) {
	t.Parallel()
	type line struct {
		others
		Int    *int64  `parquet:"int,optional"`
		String *string `parquet:"string,optional"`
	}
	var lines []line
	for i := range int64(300) {
		text := fmt.Sprint(i)
		lines = append(lines, line{others{Row: text}, &i, &text})
	}
	file := parquetOf(t, lines...)
	for what, change := range map[string]func(*format.FileMetaData){
		"rows of the file":         func(m *format.FileMetaData) { m.NumRows-- },
		"rows of the group":        func(m *format.FileMetaData) { m.RowGroups[0].NumRows-- },
		"rows of both":             func(m *format.FileMetaData) { m.RowGroups[0].NumRows--; m.NumRows-- },
		"more rows of both":        func(m *format.FileMetaData) { m.RowGroups[0].NumRows++; m.NumRows++ },
		"fewer values of a column": func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.NumValues-- },
		"more values of a column":  func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.NumValues++ },
		"bytes of a column":        func(m *format.FileMetaData) { m.RowGroups[0].Columns[4].MetaData.TotalCompressedSize-- },
		"a column fewer":           func(m *format.FileMetaData) { m.RowGroups[0].Columns = m.RowGroups[0].Columns[:4] },
		"a column less in the schema, and columns in another order": func(m *format.FileMetaData) {
			m.RowGroups[0].Columns = m.RowGroups[0].Columns[:4]
			m.Schema[0].NumChildren.V--
			m.Schema = slices.Delete(m.Schema, 1, 2)
		},
		"columns in another order": func(m *format.FileMetaData) {
			names, values := &m.RowGroups[0].Columns[1], &m.RowGroups[0].Columns[2]
			*names, *values = *values, *names
		},
		"a column of another group": func(m *format.FileMetaData) { m.RowGroups[0].Columns[4].MetaData.DataPageOffset = 4 },
	} {
		if got, err := readParquet(testTable(), changed(t, file, change)); err == nil {
			t.Errorf("%s: %d rows", what, len(got))
		}
	}
}

// A column without a type has only nulls.
func TestParquetWithoutAType(t *testing.T) {
	t.Parallel()
	file := parquetOf(t, others{"r", map[string][]byte{"a": []byte("x")}})
	got, err := readParquet(testTable(), changed(t, file, func(m *format.FileMetaData) {
		i := slices.IndexFunc(m.Schema, func(e format.SchemaElement) bool { return e.Name == "value" })
		m.Schema[i].LogicalType.Value = &format.NullType{}
	}))
	if err == nil || !strings.Contains(err.Error(), "no type") {
		t.Errorf("%q, %v", got, err)
	}
}

// Whatever bit of a file with checksums changes: it is an error, or nothing that counts. There is
// no time in it: the metadata have no second copy of its unit, if that is the nanosecond.
func TestParquetNoticesDamage(t *testing.T) {
	t.Parallel()
	table := testTable()
	var b bytes.Buffer
	w := table.NewParquetWriter(&b)
	var want []Row
	for i := range int64(20) {
		row := Row{fmt.Sprint("row ", i), []Cell{{"int", values.EncodeInt64(i)}, {"float", values.EncodeFloat64(0.5)}, {"string", []byte("text")}, {"other", []byte("x")}}}
		if i%3 == 0 {
			row.Cells = row.Cells[1:]
		}
		want = append(want, row)
		_, err := w.Write(row)
		fixture.Must(t, err)
	}
	fixture.Must(t, w.Close())
	unseen := 0
	for i := range b.Len() {
		for bit := range fixture.Of(8, 1) {
			bit = (bit + i) % 8
			damaged := bytes.Clone(b.Bytes())
			damaged[i] ^= 1 << bit
			got, err := readParquet(table, damaged)
			if err == nil && !slices.EqualFunc(got, want, sameRow) {
				unseen++
				t.Logf("byte %d of %d, bit %d: %d rows, such as %q", i, len(damaged), bit, len(got), got[:min(1, len(got))])
			}
		}
	}
	if unseen > 0 {
		t.Errorf("%d of %d damages", unseen, 8*b.Len())
	}
}

// A row that cannot be read is called by its key, or else by its number.
func TestUnreadableRowsOfParquetAreNamed(t *testing.T) {
	t.Parallel()
	type line struct {
		Row    *string           `parquet:"row,optional"`
		String []byte            `parquet:"string"`
		Map    map[string][]byte `parquet:"columns"`
	}
	key := func(key string) *string { return &key }
	file := parquetOf(t, line{Row: key("a"), String: []byte("x")}, line{Row: key("b\n"), String: []byte("\xff")}, line{String: []byte("x")},
		line{Row: key("d"), String: []byte("x"), Map: map[string][]byte{"string": nil}}, line{Row: key("e"), Map: map[string][]byte{`"`: nil}})
	rows, err := testTable().ReadParquet(bytes.NewReader(file), int64(len(file)), "")
	fixture.Must(t, err)
	var got []string
	for row, err := range rows {
		if err != nil && !errors.Is(err, model.ErrInvalidArgument) {
			t.Fatal(err)
		}
		if err != nil {
			row.Key, _, _ = strings.Cut(err.Error(), ": ")
		}
		got = append(got, row.Key)
	}
	if want := []string{"a", `row "b\n"`, "row 3", "row d", "row e"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What an export writes is no larger than its values, whatever is not compressible.
func TestParquetHasNoStatisticsOfValues(t *testing.T) {
	t.Parallel()
	value := make([]byte, 1<<20)
	var x uint32
	for i := range value {
		x = x*1664525 + 1013904223
		value[i] = byte(x >> 24)
	}
	var b bytes.Buffer
	w := testTable().NewParquetWriter(&b)
	_, err := w.Write(Row{"r", []Cell{{"bytes", value}, {"other", value}, {"int", values.EncodeInt64(7)}}})
	fixture.Must(t, err)
	fixture.Must(t, w.Close())
	if most := 2*len(value) + 16<<10; b.Len() > most {
		t.Errorf("%d bytes, at most %d", b.Len(), most)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	fixture.Must(t, err)
	for _, c := range f.Metadata().RowGroups[0].Columns {
		name, of := strings.Join(c.MetaData.PathInSchema, "."), c.MetaData.Statistics
		if number := name == "int"; (of.MaxValue != nil) != number || (of.MinValue != nil) != number {
			t.Errorf("column %s: from %q to %q", name, of.MinValue, of.MaxValue)
		}
		if c.ColumnIndexOffset != 0 {
			t.Errorf("column %s has bounds of pages", name)
		}
	}
}
