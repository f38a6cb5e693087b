package columns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// fileOf is a file with pages and metadata.
func fileOf(t testing.TB, pages []byte, meta *format.FileMetaData) []byte {
	t.Helper()
	footer, err := thrift.Marshal(&thrift.CompactProtocol{}, meta)
	fixture.Must(t, err)
	b := append([]byte(magic), pages...)
	b = append(b, footer...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(footer)))
	return append(b, magic...)
}

func element(name string, children int32) (e format.SchemaElement) {
	e.Name = name
	if children > 0 {
		e.NumChildren.V, e.NumChildren.Valid = children, true
		return e
	}
	e.Type.V, e.Type.Valid = format.ByteArray, true
	e.RepetitionType.V, e.RepetitionType.Valid = format.Required, true
	return e
}

// What the metadata describe has limits, which are checked before memory is taken for it.
func TestMetadataHaveLimits(t *testing.T) {
	metaOf := func(elements ...format.SchemaElement) *format.FileMetaData {
		return &format.FileMetaData{Version: 1, Schema: elements, RowGroups: []format.RowGroup{}}
	}
	wide := []format.SchemaElement{element("root", MaxColumns)}
	for i := range MaxColumns {
		wide = append(wide, element(fmt.Sprint(i), 0))
	}
	var deep []format.SchemaElement
	for i := range 200 {
		deep = append(deep, element(fmt.Sprint(i), 1))
	}
	many := metaOf(element("root", 1), element("a", 0))
	many.RowGroups = make([]format.RowGroup, MaxRowGroups+1)
	chunks := metaOf(element("root", 1), element("a", 0))
	chunks.RowGroups = []format.RowGroup{{Columns: make([]format.ColumnChunk, MaxChunks/2)}, {Columns: make([]format.ColumnChunk, MaxChunks/2+1)}}
	nested := bytes.Repeat([]byte{0x1c}, 1<<20) // a struct in a struct
	huge := append([]byte{0x29, 0xfc}, 0xff, 0xff, 0xff, 0xff, 0x0f)
	for what, c := range map[string]struct {
		file []byte
		want string
	}{
		"columns":               {fileOf(t, nil, metaOf(wide...)), "more than 10000 columns"},
		"groups in groups":      {fileOf(t, nil, metaOf(append(deep, element("a", 0))...)), "16 groups deep"},
		"row groups":            {fileOf(t, nil, many), "more than 32767 row groups"},
		"columns of row groups": {fileOf(t, nil, chunks), "columns of row groups"},
		"structs in structs":    {raw(nested), "nested too deeply"},
		"a list of 4 billion":   {raw(huge), "more than 10000 columns"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(bytes.NewReader(c.file), int64(len(c.file)))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
		if most := uint64(len(c.file))*3 + 4<<20 + 256*MaxChunks; after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("%s: %d bytes allocated for %d", what, after.TotalAlloc-before.TotalAlloc, len(c.file))
		}
	}
	r := &claims{footer: MaxFooterBytes + 1}
	if _, err := Open(r, MaxFooterBytes*2); err == nil || !strings.Contains(err.Error(), "at most 134217728 are supported") {
		t.Errorf("metadata of %d bytes: %v", r.footer, err)
	}
}

// raw is a file with any metadata.
func raw(footer []byte) []byte {
	b := append([]byte(magic), footer...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), magic...)
}

// claims is a file of which only the ends are read.
type claims struct{ footer uint32 }

func (c *claims) ReadAt(b []byte, at int64) (int, error) {
	if at == 0 {
		return copy(b, magic), nil
	}
	return copy(b, append(binary.LittleEndian.AppendUint32(nil, c.footer), magic...)), nil
}

// A page that claims to be larger than it is takes no memory, whatever it is encoded with.
func TestPagesHaveLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		header format.PageHeader
		body   []byte
		codec  format.CompressionCodec
		want   string
	}{
		{"above the limit", format.PageHeader{UncompressedPageSize: MaxPageBytes + 1}, []byte("x"), format.Zstd, "at most 335544320 are supported"},
		{"snappy", format.PageHeader{UncompressedPageSize: MaxPageBytes}, []byte{0x80, 0x80, 0x80, 0xa0, 0x01, 0}, format.Snappy, "damaged"},
		{"lz4", format.PageHeader{UncompressedPageSize: MaxPageBytes}, []byte{0, 0}, format.Lz4Raw, "damaged"},
		{"negative", format.PageHeader{UncompressedPageSize: -1}, []byte{0}, format.Gzip, "damaged"},
		{"a run of all values", format.PageHeader{UncompressedPageSize: 7}, []byte{0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0}, format.Uncompressed, "its dictionary is missing"},
		{"a block of all values", format.PageHeader{UncompressedPageSize: 11}, []byte{0x80, 1, 1, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0}, format.Uncompressed, "not encoded as"},
	} {
		c.header.Type, c.header.CompressedPageSize = format.DataPage, int32(len(c.body))
		c.header.DataPageHeader.Valid = true
		c.header.DataPageHeader.V = format.DataPageHeader{NumValues: 1<<31 - 1, Encoding: format.RLEDictionary}
		if c.name == "a block of all values" {
			c.header.DataPageHeader.V.Encoding = format.DeltaBinaryPacked
		}
		header, err := thrift.Marshal(&thrift.CompactProtocol{}, &c.header)
		fixture.Must(t, err)
		pages := append(header, c.body...)
		meta := &format.FileMetaData{Version: 1, NumRows: 1<<31 - 1, Schema: []format.SchemaElement{element("root", 1), element("a", 0)}}
		meta.RowGroups = []format.RowGroup{{NumRows: 1<<31 - 1, Columns: []format.ColumnChunk{{MetaData: format.ColumnMetaData{Type: format.ByteArray, Codec: c.codec,
			NumValues: 1<<31 - 1, TotalCompressedSize: int64(len(pages)), DataPageOffset: int64(len(magic)), PathInSchema: []string{"a"},
			Encoding: []format.Encoding{format.RLEDictionary, format.DeltaBinaryPacked}}}}}}
		b := fileOf(t, pages, meta)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		fixture.Must(t, err)
		_, err = f.Group(0)[0].Next()
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), `column "a": `) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if after.TotalAlloc-before.TotalAlloc > 1<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

// Pages that are in memory at once have a limit together.
func TestPagesInMemoryHaveALimit(t *testing.T) {
	t.Parallel()
	g := &group{}
	var b []byte
	for range 4 {
		fixture.Must(t, g.hold(MaxHeldBytes/4))
	}
	if err := g.reuse(&b, 1); !errors.Is(err, errHeld) {
		t.Errorf("%v", err)
	}
	const size = 100 << 10
	g.held -= size
	fixture.Must(t, g.reuse(&b, size))
	b = make([]byte, size)
	fixture.Must(t, g.reuse(&b, size/4)) // the same
	fixture.Must(t, g.reuse(&b, 10))
	if g.held != MaxHeldBytes-size+10 || b != nil {
		t.Errorf("%d bytes are held", g.held)
	}
}

// Numbers are read as they were written, at any width.
func TestIntegersAreReadAsWritten(t *testing.T) {
	t.Parallel()
	numbers := []int64{0, 1, -1, 1 << 62, -1 << 63, 1<<63 - 1, 7, 7, 7}
	for i := range int64(1000) {
		numbers = append(numbers, i*i*i*i-5000)
	}
	for n := range len(numbers) {
		if n > 300 && n < len(numbers)-2 {
			continue
		}
		b, err := parquet.DeltaBinaryPacked.EncodeInt64(nil, numbers[:n])
		fixture.Must(t, err)
		d, err := newDelta(append(b, "rest"...))
		fixture.Must(t, err)
		if rest, err := d.end(); n > 0 && (err != nil || string(rest) != "rest") {
			t.Fatalf("behind %d numbers: %q, %v", n, rest, err)
		}
		for i := range n {
			if got, err := d.next(); err != nil || got != numbers[i] {
				t.Fatalf("number %d of %d is %d, want %d, %v", i, n, got, numbers[i], err)
			}
		}
		if _, err := d.next(); !errors.Is(err, ErrDamaged) {
			t.Fatalf("behind %d numbers: %v", n, err)
		}
	}
}

// Whatever a page holds, reading it ends with an error or the last value, and does not panic.
func FuzzValues(f *testing.F) {
	f.Add(byte(0), byte(6), []byte{1, 0, 0, 0, 'a'}, 1)
	for _, e := range []format.Encoding{format.Plain, format.RLE, format.RLEDictionary, format.DeltaBinaryPacked, format.DeltaLengthByteArray, format.DeltaByteArray, format.ByteStreamSplit} {
		for kind := range byte(8) {
			f.Add(byte(e), kind, []byte{0x80, 1, 4, 3, 2, 1, 1, 1, 1, 0xff, 0xfe, 0x10, 0x20}, 10)
		}
	}
	f.Fuzz(func(t *testing.T, e, kind byte, page []byte, n int) {
		c := &Column{form: formOf(format.Type(kind%8), parquet.FixedLenByteArrayType(3))}
		c.dict, _ = newDictionary(c.form, []byte{1, 0, 0, 0, 'a', 0, 0, 0}, 1)
		d, err := c.decoderOf(format.Encoding(e%16), page)
		for ; err == nil && n > 0 && n < 1000; n-- {
			var v Value
			err = d.next(&v)
		}
		if err == io.EOF { //nolint:errorlint // as callers compare it
			t.Error("the end of a page is the end of the column")
		}
	})
}
