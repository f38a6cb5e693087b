package columns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

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
	huge := []byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07}
	for what, c := range map[string]struct {
		file []byte
		want string
	}{
		"columns":               {fileOf(t, nil, metaOf(wide...)), "more than 10000 columns"},
		"groups in groups":      {fileOf(t, nil, metaOf(append(deep, element("a", 0))...)), "16 groups deep"},
		"row groups":            {fileOf(t, nil, many), "more than 32767 row groups"},
		"columns of row groups": {fileOf(t, nil, chunks), "columns of row groups"},
		"structs in structs":    {raw(nested), "nested too deeply"},
		"a list of 2 billion":   {raw(huge), "more than 10000 columns"},
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
