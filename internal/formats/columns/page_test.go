package columns

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

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

// A column that cannot be read is not damaged.
func TestReadingFails(t *testing.T) {
	t.Parallel()
	fails := errors.New("fails")
	f := &File{r: failing{fails}, leaves: make([]parquet.LeafColumn, 1), groups: []rowGroup{{Chunks: make([]columnChunk, 1)}}}
	f.groups[0].Chunks[0].Meta.V = chunk{Type: format.ByteArray, Values: 1, Bytes: 100}
	if _, err := f.Group(0)[0].Next(); !errors.Is(err, fails) || errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

// Pages that are in memory at once have a limit together.
func TestPagesInMemoryHaveALimit(t *testing.T) {
	t.Parallel()
	g := &group{}
	columns := []*Column{{group: g}, {group: g}, {group: g}, {group: g}}
	for _, c := range columns {
		fixture.Must(t, c.release(MaxHeldBytes/4))
	}
	if err := columns[0].hold(1); !errors.Is(err, errHeld) {
		t.Errorf("%v", err)
	}
	const size = 100 << 10
	c := columns[0]
	fixture.Must(t, c.release(size))
	c.buf = make([]byte, size)
	fixture.Must(t, c.release(size/4)) // the same
	if c.held != size || c.buf == nil {
		t.Errorf("%d bytes are held", c.held)
	}
	fixture.Must(t, c.release(10))
	if c.held != 10 || c.buf != nil || g.held != 3*MaxHeldBytes/4+10 {
		t.Errorf("%d bytes are held, %d by all", c.held, g.held)
	}
}
