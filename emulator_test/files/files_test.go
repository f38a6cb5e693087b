// Package files_test reads Parquet that other programs write, whole and damaged, and lets one of
// them read what exports write.
package files_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/parquet-go/parquet-go"
	parquetcompress "github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

// schema is of the table that the files are read for.
var schema = &model.Schema{Tables: []model.Table{{Name: "t", Columns: []model.ColumnSchema{
	{Name: "int", Type: model.TypeInt64}, {Name: "float", Type: model.TypeFloat64}, {Name: "bool", Type: model.TypeBool}, {Name: "time", Type: model.TypeTime},
	{Name: "string", Type: model.TypeString}, {Name: "bytes"}, {Name: "small", Type: model.TypeInt64}, {Name: "name*"}, {Name: "long*"},
}}}}

// line is a row of a file. What is not there is nil.
type line struct {
	Row     string            `parquet:"row"`
	Int     *int64            `parquet:"int,optional"`
	Float   *float64          `parquet:"float,optional"`
	Bool    *bool             `parquet:"bool,optional"`
	Time    *int64            `parquet:"time,optional,timestamp(microsecond)"`
	String  *string           `parquet:"string,optional"`
	Bytes   []byte            `parquet:"bytes,optional"`
	Small   int32             `parquet:"small"`
	Columns map[string][]byte `parquet:"columns,optional"`
}

// linesOf are rows with repetitions, gaps and extremes.
func linesOf(n int) (lines []line) {
	for i := range n {
		l := line{Row: fmt.Sprintf("row %06d", i), Small: int32(i%7 - 3)}
		number, float, truth, text := int64(i*i-1000), float64(i)/8, i%3 == 0, strings.Repeat("é", i%5)+fmt.Sprint(i/10)
		switch {
		case i%97 == 0:
			number, float = math.MinInt64, math.Inf(1)
		case i%89 == 0:
			number, float = math.MaxInt64, math.Copysign(0, -1)
		}
		at := int64(i) * 1_000_003
		if i%4 != 0 {
			l.Int, l.Time = &number, &at
		}
		if i%5 != 0 {
			l.Float, l.Bool, l.String = &float, &truth, &text
		}
		if i%3 != 0 {
			l.Bytes = []byte{byte(i), 0xff, 0}
		}
		for j := range i % 4 {
			if l.Columns == nil {
				l.Columns = map[string][]byte{}
			}
			l.Columns[fmt.Sprint("name", j)] = []byte(fmt.Sprint("value ", i, j))
		}
		lines = append(lines, l)
	}
	return lines
}

// row is what a line should be read as.
func (l line) row() formats.Row {
	r := formats.Row{Key: l.Row}
	add := func(column string, value []byte) {
		r.Cells = append(r.Cells, formats.Cell{Column: column, Value: value})
	}
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	if l.Int != nil {
		add("int", number(uint64(*l.Int)))
	}
	if l.Float != nil {
		b, err := model.TypeFloat64.Encode(*l.Float)
		if err != nil {
			panic(err)
		}
		add("float", b)
	}
	if l.Bool != nil {
		b, _ := model.TypeBool.Encode(*l.Bool)
		add("bool", b)
	}
	if l.Time != nil {
		add("time", number(uint64(*l.Time*1000)^1<<63))
	}
	if l.String != nil {
		add("string", []byte(*l.String))
	}
	if l.Bytes != nil {
		add("bytes", l.Bytes)
	}
	add("small", number(uint64(int64(l.Small))))
	for name, value := range l.Columns {
		add(name, value)
	}
	return r
}

func same(got []formats.Row, want []line) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d rows, want %d", len(got), len(want))
	}
	byName := func(a, b formats.Cell) int { return strings.Compare(a.Column, b.Column) }
	for i, l := range want {
		w := l.row()
		slices.SortFunc(w.Cells, byName)
		slices.SortFunc(got[i].Cells, byName)
		if got[i].Key != w.Key || !slices.EqualFunc(got[i].Cells, w.Cells, func(a, b formats.Cell) bool { return a.Column == b.Column && bytes.Equal(a.Value, b.Value) }) {
			return fmt.Sprintf("row %d is %q, want %q", i, got[i], w)
		}
	}
	return ""
}

func read(b []byte) (list []formats.Row, err error) {
	table, err := formats.TableOf(schema, "t")
	if err != nil {
		return nil, err
	}
	rows, err := table.ReadParquet(bytes.NewReader(b), int64(len(b)), "")
	if err != nil {
		return nil, err
	}
	for r, err := range rows {
		if err != nil {
			return list, err
		}
		list = append(list, r)
	}
	return list, nil
}

// form is how a file is written.
type form struct{ writer, codec, encoding, version string }

var (
	writers   = []string{"arrow-go", "parquet-go"}
	codecs    = []string{"UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4_RAW"}
	encodings = []string{"plain", "dictionary", "delta", "delta of lengths", "byte stream split"}
	versions  = []string{"1", "2"}
)

func forms() (all []form) {
	for _, w := range writers {
		for _, c := range codecs {
			for _, e := range encodings {
				for _, v := range versions {
					all = append(all, form{w, c, e, v})
				}
			}
		}
	}
	return all
}

func (f form) file(t testing.TB, lines []line) []byte {
	t.Helper()
	if f.writer == "arrow-go" {
		return f.arrow(t, lines)
	}
	return f.parquetGo(t, lines)
}

var arrowCodecs = map[string]compress.Compression{
	"UNCOMPRESSED": compress.Codecs.Uncompressed, "SNAPPY": compress.Codecs.Snappy, "GZIP": compress.Codecs.Gzip, "BROTLI": compress.Codecs.Brotli,
	"ZSTD": compress.Codecs.Zstd, "LZ4_RAW": compress.Codecs.Lz4Raw,
}

var parquetGoCodecs = map[string]parquetcompress.Codec{
	"UNCOMPRESSED": &parquet.Uncompressed, "SNAPPY": &parquet.Snappy, "GZIP": &parquet.Gzip, "BROTLI": &parquet.Brotli, "ZSTD": &parquet.Zstd, "LZ4_RAW": &parquet.Lz4Raw,
}

// features are the codecs, encodings and kinds of data pages that files have.
type features struct{ codecs, encodings, pages map[string]bool }

func (f *features) add(t testing.TB, file []byte) {
	t.Helper()
	if f.codecs == nil {
		*f = features{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	}
	opened, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	fixture.Must(t, err)
	for _, g := range opened.Metadata().RowGroups {
		for _, c := range g.Columns {
			f.codecs[c.MetaData.Codec.String()] = true
			for _, e := range c.MetaData.Encoding {
				f.encodings[e.String()] = true
			}
			f.pages[versionOf(t, file[c.MetaData.DataPageOffset:])] = true
		}
	}
	if len(opened.Metadata().RowGroups) < 2 {
		t.Error("the file has one row group")
	}
}

// versionOf is that of the data page that a file has next.
func versionOf(t testing.TB, file []byte) string {
	t.Helper()
	var header format.PageHeader
	fixture.Must(t, thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(bytes.NewReader(file))).Decode(&header))
	switch header.Type {
	case format.DataPage:
		return "1"
	case format.DataPageV2:
		return "2"
	}
	t.Fatalf("no data page: %v", header.Type)
	return ""
}

// named are the encodings by the words of docs/internals/FORMATS.md. Levels and booleans have
// others beside.
var named = []struct{ word, encoding string }{
	{"plain", "PLAIN"}, {"dictionary", "RLE_DICTIONARY"}, {"dictionary", "PLAIN_DICTIONARY"}, {"delta", "DELTA_BYTE_ARRAY"}, {"delta", "DELTA_BINARY_PACKED"},
	{"delta of lengths", "DELTA_LENGTH_BYTE_ARRAY"}, {"byte stream split", "BYTE_STREAM_SPLIT"},
}

// String is the columns of the table in docs/internals/FORMATS.md.
func (f features) String() string {
	var words []string
	for _, n := range named {
		if f.encodings[n.encoding] && !slices.Contains(words, n.word) {
			words = append(words, n.word)
		}
	}
	in := func(order []string, has map[string]bool) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(order), func(s string) bool { return !has[s] }), ", ")
	}
	return fmt.Sprintf("%s | %s | %s", in(codecs, f.codecs), strings.Join(words, ", "), in(versions, f.pages))
}

// check tells whether a file is of the form: writers may choose another.
func (f form) check(t testing.TB, file []byte) {
	t.Helper()
	var have features
	have.add(t, file)
	word := func(n struct{ word, encoding string }) bool {
		return n.word == f.encoding && have.encodings[n.encoding]
	}
	if len(have.codecs) != 1 || !have.codecs[f.codec] || !slices.ContainsFunc(named, word) || !have.pages[f.version] {
		t.Errorf("%v is %v", f, have)
	}
}

const groupRows = 250 // of a row group

// TestEveryFormIsRead reads files of each writer, and compares the values.
// docs/internals/FORMATS.md has its table.
func TestEveryFormIsRead(t *testing.T) {
	t.Parallel()
	lines := linesOf(600)
	all := map[string]*features{}
	for _, w := range writers {
		all[w] = new(features)
	}
	for _, f := range forms() {
		file := f.file(t, lines)
		f.check(t, file)
		all[f.writer].add(t, file)
		got, err := read(file)
		if err != nil {
			t.Errorf("%v: %v", f, err)
		} else if difference := same(got, lines); difference != "" {
			t.Errorf("%v: %s", f, difference)
		}
	}
	for w, have := range all {
		documented(t, w, *have)
	}
}

// A row group without rows has none, wherever its writer says that it lies: arrow-go writes a
// dictionary, and leaves its place out.
func TestRowGroupsWithoutRows(t *testing.T) {
	t.Parallel()
	for _, f := range forms() {
		if got, err := read(f.file(t, nil)); err != nil || len(got) > 0 {
			t.Errorf("%+v: %d rows, %v", f, len(got), err)
		}
	}
}
