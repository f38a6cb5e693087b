package columns

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	magic          = "PAR1"
	encryptedMagic = "PARE"
)

// File is a Parquet file whose metadata were read and checked. It is immutable.
type File struct {
	r      io.ReaderAt
	size   int64
	schema *parquet.Schema
	leaves []parquet.LeafColumn
	groups []rowGroup
}

// metadata is what a file says of itself, but for what nobody needs here: statistics and indexes.
type metadata struct {
	Schema []format.SchemaElement `thrift:"2,required"`
	Rows   int64                  `thrift:"3,required"`
	Groups []rowGroup             `thrift:"4,required"`
}

type rowGroup struct {
	Chunks []columnChunk `thrift:"1,required"`
	Rows   int64         `thrift:"3,required"`
}

type columnChunk struct {
	File          thrift.Null[string]   `thrift:"1,optional"`
	Meta          thrift.Null[chunk]    `thrift:"3,optional"`
	Encryption    thrift.Null[struct{}] `thrift:"8,optional"`
	EncryptedMeta thrift.Null[[]byte]   `thrift:"9,optional"`
}

// chunk is a column in a row group.
type chunk struct {
	Type      format.Type                   `thrift:"1,required"`
	Encodings thrift.Slice[format.Encoding] `thrift:"2,required"`
	Path      thrift.Slice[string]          `thrift:"3,optional"`
	Codec     format.CompressionCodec       `thrift:"4,required"`
	Values    int64                         `thrift:"5,required"`
	Bytes     int64                         `thrift:"7,required"`
	Data      int64                         `thrift:"9,required"`  // where the first page begins
	Dict      int64                         `thrift:"11,optional"` // or the dictionary
}

// Open reads the metadata of a file. Its errors say why no file of this kind can be read, or which
// column it is that cannot.
func Open(r io.ReaderAt, size int64) (*File, error) {
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	var meta metadata
	from := bufio.NewReader(bytes.NewReader(footer))
	err = decode(from, &meta)
	if _, more := from.Peek(1); err == nil && more == nil {
		err = damaged("more follows than there should be")
	}
	if err != nil {
		return nil, fmt.Errorf("reading its metadata: %w", err)
	}
	f := &File{r: r, size: size, groups: meta.Groups}
	if f.schema, err = schemaOf(meta.Schema); err != nil {
		return nil, fmt.Errorf("reading its schema: %w", err)
	}
	for _, path := range f.schema.Columns() {
		leaf, ok := f.schema.Lookup(path...)
		if !ok || leaf.ColumnIndex != len(f.leaves) {
			return nil, fmt.Errorf("column %q is there twice", nameOf(leaf))
		}
		f.leaves = append(f.leaves, leaf)
	}
	return f, f.check(meta.Rows)
}

// Schema is the schema of the file. Its columns are in the order of the file.
func (f *File) Schema() *parquet.Schema { return f.schema }

// RowGroups is how many row groups the file has.
func (f *File) RowGroups() int { return len(f.groups) }

// Rows is how many rows a row group has.
func (f *File) Rows(group int) int64 { return f.groups[group].Rows }

// readFooter reads the metadata as they stand at the end of the file.
func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	var end [4 + len(magic)]byte
	if size < int64(len(magic)+len(end)) {
		return nil, errors.New("not a Parquet file")
	}
	var begin [len(magic)]byte
	if err := readAt(r, begin[:], 0); err != nil {
		return nil, err
	}
	if err := readAt(r, end[:], size-int64(len(end))); err != nil {
		return nil, err
	}
	switch {
	case string(begin[:]) == encryptedMagic || string(end[4:]) == encryptedMagic:
		return nil, errors.New("an encrypted Parquet file, which is not supported")
	case string(begin[:]) != magic || string(end[4:]) != magic:
		return nil, errors.New("not a Parquet file")
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	switch {
	case n > size-int64(len(magic)+len(end)):
		return nil, damaged("its metadata are larger than the file")
	case n > MaxFooterBytes:
		return nil, fmt.Errorf("its metadata have %d bytes, at most %d are supported", n, MaxFooterBytes)
	}
	footer := make([]byte, n)
	return footer, readAt(r, footer, size-int64(len(end))-n)
}

func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	return unexpected(err)
}

// schemaOf makes a schema of the elements of the metadata. The library takes it from a file, so
// this is one without rows.
func schemaOf(elements []format.SchemaElement) (s *parquet.Schema, err error) {
	defer recovered(&err)
	for i := range elements {
		e := &elements[i]
		switch n := e.NumChildren.V; {
		case int(n) > len(elements) || n < 0:
			return nil, damaged("a group has more columns than the file")
		case isGroup(e):
			return nil, damaged("column %q is a group without columns", e.Name)
		case contradicts(e):
			return nil, damaged("column %q has two types", e.Name)
		}
	}
	if err := checkDepth(elements); err != nil {
		return nil, err
	}
	footer, err := thrift.Marshal(&thrift.CompactProtocol{}, &format.FileMetaData{Version: 1, Schema: elements})
	if err != nil {
		return nil, damaged("%w", err)
	}
	b := append([]byte(magic), footer...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(footer)))
	b = append(b, magic...)
	file, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, damaged("%w", err)
	}
	return file.Schema(), nil
}

// isGroup tells whether a column of values is annotated as a group of columns.
func isGroup(e *format.SchemaElement) bool {
	if !e.Type.Valid {
		return false
	}
	switch e.LogicalType.Value.(type) {
	case *format.MapType, *format.ListType, *format.VariantType:
		return true
	}
	old := e.ConvertedType
	return old.Valid && (old.V == deprecated.Map || old.V == deprecated.MapKeyValue || old.V == deprecated.List)
}

// contradicts tells whether a column's old type is another than its new one, of those where numbers
// would become other numbers.
func contradicts(e *format.SchemaElement) bool {
	old := e.ConvertedType
	if !old.Valid {
		return false
	}
	switch of := e.LogicalType.Value.(type) {
	case *format.IntType:
		first := deprecated.Uint8
		if of.IsSigned {
			first = deprecated.Int8
		}
		return old.V != first+deprecated.ConvertedType(bits.Len8(uint8(of.BitWidth))-4)
	case *format.TimestampType:
		_, millis := of.Unit.Value.(*format.MilliSeconds)
		_, micros := of.Unit.Value.(*format.MicroSeconds)
		return !(millis && old.V == deprecated.TimestampMillis || micros && old.V == deprecated.TimestampMicros)
	}
	return false
}

// checkDepth looks at how deep columns lie in groups: the library calls itself for each.
func checkDepth(elements []format.SchemaElement) error {
	open := []int32{1} // children to come, of the groups around
	for i := range elements {
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			return damaged("a column lies in no group")
		}
		open[len(open)-1]--
		if n := elements[i].NumChildren.V; n > 0 {
			open = append(open, n)
		}
		if len(open) > MaxDepth {
			return fmt.Errorf("columns lie more than %d groups deep", MaxDepth)
		}
	}
	for _, n := range open {
		if n > 0 {
			return damaged("columns are missing")
		}
	}
	return nil
}

// check compares the row groups with the schema, and refuses what cannot be read by the name of its
// column.
func (f *File) check(want int64) error {
	rows := int64(0)
	for i, g := range f.groups {
		if len(g.Chunks) != len(f.leaves) || g.Rows < 0 {
			return damaged("row group %d has %d columns and %d rows, and the schema %d columns", i, len(g.Chunks), g.Rows, len(f.leaves))
		}
		rows += g.Rows
		for j := range g.Chunks {
			if err := f.checkChunk(g.Rows, &g.Chunks[j], f.leaves[j]); err != nil {
				return fmt.Errorf("column %q: %w", nameOf(f.leaves[j]), err)
			}
		}
	}
	if rows != want {
		return damaged("it has %d rows, and its row groups %d", want, rows)
	}
	return nil
}

func (f *File) checkChunk(rows int64, of *columnChunk, leaf parquet.LeafColumn) error {
	ch := &of.Meta.V
	_, readable := codecs[ch.Codec]
	start := ch.start()
	switch {
	case of.Encryption.Valid || of.EncryptedMeta.Valid:
		return errors.New("it is encrypted, which is not supported")
	case of.File.Valid:
		return errors.New("it lies in another file, which is not supported")
	case !of.Meta.Valid:
		return damaged("its metadata are missing")
	case ch.Type < format.Boolean || ch.Type > format.FixedLenByteArray || !isNull(leaf) && int64(ch.Type) != int64(leaf.Node.Type().Kind()):
		return damaged("it is of another type than in the schema")
	case f.isOfAnother(ch.Path, leaf): // readers go by the name or by the place
		return damaged("in its place are the metadata of column %q", strings.Join(ch.Path, "."))
	case !readable:
		return fmt.Errorf("it is compressed with %s, which is not supported", ch.Codec)
	case ch.Values > 0 && start < int64(len(magic)) || ch.Bytes < 0 || start > f.size-ch.Bytes:
		return damaged("it does not lie in the file")
	case ch.Values < rows || leaf.MaxRepetitionLevel == 0 && ch.Values != rows:
		return damaged("it has %d values in %d rows", ch.Values, rows)
	}
	for _, e := range ch.Encodings {
		if !isReadable(e) && e != format.BitPacked { // which is one of levels alone
			return fmt.Errorf("its values are encoded as %s, which is not supported", e)
		}
	}
	return nil
}

// isOfAnother tells whether a path is that of another column.
func (f *File) isOfAnother(path []string, leaf parquet.LeafColumn) bool {
	other, ok := f.schema.Lookup(path...)
	return ok && other.ColumnIndex != leaf.ColumnIndex
}

// isNull tells whether a column has no type, as it has only nulls.
func isNull(leaf parquet.LeafColumn) bool {
	logical := leaf.Node.Type().LogicalType()
	if logical == nil {
		return false
	}
	_, is := logical.Value.(*format.NullType)
	return is
}

// start is where the first page begins.
func (ch *chunk) start() int64 {
	if ch.Dict > 0 && ch.Dict < ch.Data {
		return ch.Dict
	}
	return ch.Data
}
