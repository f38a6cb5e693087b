package columns

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

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
	rows   int64
	schema *parquet.Schema
	leaves []parquet.LeafColumn
	groups []rowGroup
}

type rowGroup struct {
	rows   int64
	chunks []chunk
}

// chunk is what the metadata say of a column in a row group.
type chunk struct {
	typ        format.Type
	codec      format.CompressionCodec
	encodings  uint32 // those of its pages, a bit each
	values     int64
	bytes      int64
	data, dict int64 // offsets of the first page, of the dictionary or 0
	known      bool
	elsewhere  bool // in another file
	encrypted  bool
}

// Open reads the metadata of a file. Its errors say why no file of this kind can be read, or which
// column it is that cannot.
func Open(r io.ReaderAt, size int64) (*File, error) {
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{r: r, size: size}
	elements, err := f.parse(footer)
	if err != nil {
		return nil, fmt.Errorf("reading its metadata: %w", asDamage(err))
	}
	if f.schema, err = schemaOf(elements); err != nil {
		return nil, fmt.Errorf("reading its schema: %w", err)
	}
	for _, path := range f.schema.Columns() {
		leaf, ok := f.schema.Lookup(path...)
		if !ok || leaf.ColumnIndex != len(f.leaves) {
			return nil, fmt.Errorf("column %q is there twice", nameOf(leaf))
		}
		f.leaves = append(f.leaves, leaf)
	}
	return f, f.check()
}

// Schema is the schema of the file. Its columns are in the order of the file.
func (f *File) Schema() *parquet.Schema { return f.schema }

// RowGroups is how many row groups the file has.
func (f *File) RowGroups() int { return len(f.groups) }

// Rows is how many rows a row group has.
func (f *File) Rows(group int) int64 { return f.groups[group].rows }

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

// parse reads the metadata but for what nobody needs: statistics and indexes.
func (f *File) parse(footer []byte) (elements [][]byte, err error) {
	c := &compact{r: bufio.NewReader(bytes.NewReader(footer))}
	chunks, seen := 0, [5]bool{}
	err = c.fields(func(id int64, typ byte) error {
		if id >= 0 && id < int64(len(seen)) {
			seen[id] = true
		}
		switch id {
		case 2:
			return c.list(typ, typeStruct, MaxColumns, "columns", func(int) error {
				from := c.read
				if err := c.skipElement(typeStruct); err != nil {
					return err
				}
				elements = append(elements, footer[from:c.read])
				return nil
			})
		case 3:
			f.rows, err = c.int(typ)
			return err
		case 4:
			return c.list(typ, typeStruct, MaxRowGroups, "row groups", func(int) error {
				g, err := c.rowGroup(MaxChunks - chunks)
				f.groups = append(f.groups, g)
				chunks += len(g.chunks)
				return err
			})
		}
		return c.skip(typ)
	})
	switch {
	case err != nil:
	case c.read != int64(len(footer)):
		err = damaged("more follows than there should be")
	case !seen[2] || !seen[3] || !seen[4]:
		err = damaged("they lack a schema, rows, or row groups")
	}
	return elements, unexpected(err)
}

func (c *compact) rowGroup(most int) (g rowGroup, err error) {
	err = c.fields(func(id int64, typ byte) error {
		switch id {
		case 1:
			return c.list(typ, typeStruct, most, "columns of row groups", func(int) error {
				chunk, err := c.chunk()
				g.chunks = append(g.chunks, chunk)
				return err
			})
		case 3:
			g.rows, err = c.int(typ)
			return err
		}
		return c.skip(typ)
	})
	return g, err
}

func (c *compact) chunk() (ch chunk, err error) {
	err = c.fields(func(id int64, typ byte) error {
		switch id {
		case 1:
			ch.elsewhere = true
		case 3:
			ch.known = true
			return c.structure(typ, func(id int64, typ byte) error { return c.properties(&ch, id, typ) })
		case 8, 9:
			ch.encrypted = true
		}
		return c.skip(typ)
	})
	return ch, err
}

func (c *compact) properties(ch *chunk, id int64, typ byte) (err error) {
	to := map[int64]*int64{5: &ch.values, 7: &ch.bytes, 9: &ch.data, 11: &ch.dict}[id]
	if to != nil {
		*to, err = c.int(typ)
		return err
	}
	switch id {
	case 1, 4:
		n, err := c.int(typ)
		if id == 1 {
			ch.typ = format.Type(n)
		} else {
			ch.codec = format.CompressionCodec(n)
		}
		return err
	case 2:
		return c.list(typ, typeI32, 1000, "encodings of a column", func(int) error {
			n, err := c.varint()
			if err == nil && (n < 0 || n > 31) {
				err = damaged("an encoding is unknown")
			}
			ch.encodings |= 1 << (n & 31)
			return err
		})
	}
	return c.skip(typ)
}

// schemaOf makes a schema of the elements of the metadata. The library takes it from a file, so
// this is one without rows.
func schemaOf(elements [][]byte) (s *parquet.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = damaged("%v", p)
		}
	}()
	meta := format.FileMetaData{Version: 1, Schema: make([]format.SchemaElement, len(elements))}
	protocol := &thrift.CompactProtocol{}
	for i, e := range elements {
		if err := thrift.Unmarshal(protocol, e, &meta.Schema[i]); err != nil {
			return nil, damaged("%w", err)
		}
		if n := len(elements); meta.Schema[i].NumChildren.V > int32(n) || meta.Schema[i].NumChildren.V < 0 {
			return nil, damaged("a group has more columns than the file")
		}
		if isGroup(&meta.Schema[i]) {
			return nil, damaged("column %q is a group without columns", meta.Schema[i].Name)
		}
		if contradicts(&meta.Schema[i]) {
			return nil, damaged("column %q has two types", meta.Schema[i].Name)
		}
	}
	if err := checkDepth(meta.Schema); err != nil {
		return nil, err
	}
	footer, err := thrift.Marshal(protocol, &meta)
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
func (f *File) check() error {
	rows := int64(0)
	for i, g := range f.groups {
		if len(g.chunks) != len(f.leaves) || g.rows < 0 {
			return damaged("row group %d has %d columns and %d rows, and the schema %d columns", i, len(g.chunks), g.rows, len(f.leaves))
		}
		rows += g.rows
		for j, ch := range g.chunks {
			if err := f.checkChunk(g, ch, f.leaves[j]); err != nil {
				return fmt.Errorf("column %q: %w", nameOf(f.leaves[j]), err)
			}
		}
	}
	if rows != f.rows {
		return damaged("it has %d rows, and its row groups %d", f.rows, rows)
	}
	return nil
}

func (f *File) checkChunk(g rowGroup, ch chunk, leaf parquet.LeafColumn) error {
	_, readable := codecs[ch.codec]
	start := ch.start()
	switch {
	case ch.encrypted:
		return errors.New("it is encrypted, which is not supported")
	case ch.elsewhere:
		return errors.New("it lies in another file, which is not supported")
	case !ch.known:
		return damaged("its metadata are missing")
	case ch.typ < format.Boolean || ch.typ > format.FixedLenByteArray || !isNull(leaf) && int64(ch.typ) != int64(leaf.Node.Type().Kind()):
		return damaged("it is of another type than in the schema")
	case !readable:
		return fmt.Errorf("it is compressed with %s, which is not supported", ch.codec)
	case ch.values > 0 && start < int64(len(magic)) || ch.bytes < 0 || start > f.size-ch.bytes:
		return damaged("it does not lie in the file")
	case ch.values < g.rows || leaf.MaxRepetitionLevel == 0 && ch.values != g.rows:
		return damaged("it has %d values in %d rows", ch.values, g.rows)
	}
	for e := range format.Encoding(32) {
		if ch.encodings&(1<<e) != 0 && !isReadable(e) && e != format.BitPacked { // which is one of levels alone
			return fmt.Errorf("its values are encoded as %s, which is not supported", e)
		}
	}
	return nil
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
func (ch chunk) start() int64 {
	if ch.dict > 0 && ch.dict < ch.data {
		return ch.dict
	}
	return ch.data
}
