package columns

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	mathbits "math/bits"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// pageHeader is what stands before a page. The library's own has statistics, which hold values.
type pageHeader struct {
	Type       format.PageType                          `thrift:"1,required"`
	Size       int32                                    `thrift:"2,required"`
	Compressed int32                                    `thrift:"3,required"`
	CRC        thrift.Null[int32]                       `thrift:"4,optional"`
	V1         thrift.Null[dataPage]                    `thrift:"5,optional"`
	Dictionary thrift.Null[format.DictionaryPageHeader] `thrift:"7,optional"`
	V2         thrift.Null[dataPageV2]                  `thrift:"8,optional"`
}

type dataPage struct {
	Values      int32           `thrift:"1,required"`
	Encoding    format.Encoding `thrift:"2,required"`
	Definitions format.Encoding `thrift:"3,required"`
	Repetitions format.Encoding `thrift:"4,required"`
}

type dataPageV2 struct {
	Values       int32             `thrift:"1,required"`
	Nulls        int32             `thrift:"2,required"`
	Rows         int32             `thrift:"3,required"`
	Encoding     format.Encoding   `thrift:"4,required"`
	Definitions  int32             `thrift:"5,required"` // bytes
	Repetitions  int32             `thrift:"6,required"`
	IsCompressed thrift.Null[bool] `thrift:"7,optional"`
}

// levels is how many bytes of a page of version 2 stand before its values.
func (h *pageHeader) levels() int64 { return int64(h.V2.V.Definitions) + int64(h.V2.V.Repetitions) }

// values is how many there are, with nulls, and how those that are none are encoded.
func (h *pageHeader) values() (n int32, e format.Encoding) {
	switch {
	case h.V1.Valid:
		return h.V1.V.Values, h.V1.V.Encoding
	case h.V2.Valid:
		return h.V2.V.Values, h.V2.V.Encoding
	}
	return h.Dictionary.V.NumValues, h.Dictionary.V.Encoding
}

// isStored tells whether the values are not compressed.
func (c *Column) isStored(h *pageHeader) bool {
	return c.chunk.Codec == format.Uncompressed || h.V2.V.IsCompressed.Valid && !h.V2.V.IsCompressed.V
}

// check refuses a header that contradicts itself or the metadata, before memory is taken for the
// page.
func (c *Column) check(h *pageHeader) error {
	v2 := h.V2.V
	n, e := h.values()
	switch {
	case h.Compressed < 0 || int64(h.Compressed) > c.from.left+int64(c.r.Buffered()):
		return damaged("a page is larger than the column")
	case h.Size > MaxPageBytes || h.Compressed > MaxPageBytes:
		return fmt.Errorf("a page has %d bytes, at most %d are supported", max(h.Size, h.Compressed), MaxPageBytes)
	case h.V1.Valid != (h.Type == format.DataPage), h.V2.Valid != (h.Type == format.DataPageV2), h.Dictionary.Valid != (h.Type == format.DictionaryPage):
		return damaged("a page is not of its kind")
	case h.Size < 0 || n < 0 || v2.Definitions < 0 || v2.Repetitions < 0 || h.levels() > int64(min(h.Size, h.Compressed)):
		return damaged("a page has sizes that are none")
	case c.isStored(h) && h.Size != h.Compressed:
		return damaged("a page is not compressed, and has two sizes")
	}
	if !h.V1.Valid && !h.V2.Valid {
		return nil
	}
	// No writer leaves out this one, and those that do not know it could mistake it for PLAIN.
	split := format.Encoding(format.ByteStreamSplit)
	switch known := c.chunk.Encodings; {
	case int64(n) > c.left:
		return damaged("it has more values than the metadata say")
	case !isReadable(e):
		return fmt.Errorf("values are encoded as %s, which is not supported", e)
	case (e == split || slices.Contains(known, split)) && !slices.Contains(known, e):
		return damaged("values are encoded in another way than the metadata say")
	case h.V1.Valid && (c.leaf.MaxDefinitionLevel > 0 && h.V1.V.Definitions != format.RLE || c.leaf.MaxRepetitionLevel > 0 && h.V1.V.Repetitions != format.RLE):
		return fmt.Errorf("levels are encoded as %s and %s, which is not supported", h.V1.V.Definitions, h.V1.V.Repetitions)
	}
	return nil
}

// nextPage reads a page. io.EOF: there is none.
func (c *Column) nextPage() error {
	switch _, err := c.r.Peek(1); {
	case err == io.EOF && c.left == 0: //nolint:errorlint // returned as it is
		return io.EOF
	case err == io.EOF: //nolint:errorlint // likewise
		return damaged("it ends before its last %d values", c.left)
	}
	var h pageHeader
	if err := decode(c.r, &h); err != nil {
		return cmp.Or(c.from.err, err)
	}
	if err := c.check(&h); err != nil {
		return err
	}
	if !h.V1.Valid && !h.V2.Valid && !h.Dictionary.Valid { // an index
		_, err := c.r.Discard(int(h.Compressed))
		return unexpected(err)
	}
	raw := sized(c.group.scratch, int(h.Compressed))
	c.group.scratch = raw
	if _, err := io.ReadFull(c.r, raw); err != nil {
		return unexpected(err)
	}
	if h.CRC.Valid && uint32(h.CRC.V) != crc32.ChecksumIEEE(raw) {
		return damaged("a page has another checksum than its header")
	}
	if h.Dictionary.Valid {
		return c.dictionaryPage(&h, raw)
	}
	return c.dataPage(&h, raw)
}

func (c *Column) dictionaryPage(h *pageHeader, raw []byte) error {
	n, e := h.values()
	switch {
	case c.dict != nil:
		return damaged("it has two dictionaries")
	case e != format.Plain && e != plainDictionary:
		return fmt.Errorf("its dictionary is encoded as %s, which is not supported", e)
	}
	if err := c.hold(int64(h.Size)); err != nil {
		return err
	}
	b, err := c.decompress(nil, raw, int(h.Size), c.isStored(h))
	if err != nil {
		return err
	}
	c.dict, err = c.decode(format.Plain, b, int(n))
	c.held = 0 // it stays
	return err
}

func (c *Column) dataPage(h *pageHeader, raw []byte) (err error) {
	if err := c.release(int(h.Size)); err != nil {
		return err
	}
	levels := bytes.Clone(raw[:h.levels()])
	if c.buf, err = c.decompress(c.buf, raw[len(levels):], int(h.Size)-len(levels), c.isStored(h)); err != nil {
		return err
	}
	rest := c.buf
	reps, defs := levels[:h.V2.V.Repetitions], levels[h.V2.V.Repetitions:]
	if h.V1.Valid {
		if reps, rest, err = levelsV1(rest, c.leaf.MaxRepetitionLevel); err != nil {
			return err
		}
		if defs, rest, err = levelsV1(rest, c.leaf.MaxDefinitionLevel); err != nil {
			return err
		}
	}
	n, e := h.values()
	var rows, present int
	if c.reps, rows, err = levelsOf(reps, c.leaf.MaxRepetitionLevel, int(n), 0); err != nil {
		return err
	}
	if c.defs, present, err = levelsOf(defs, c.leaf.MaxDefinitionLevel, int(n), c.leaf.MaxDefinitionLevel); err != nil {
		return err
	}
	if nulls := int(n) - present; h.V2.Valid && (nulls != int(h.V2.V.Nulls) || rows != int(h.V2.V.Rows)) {
		return damaged("a page has %d rows and %d nulls, and its header says %d and %d", rows, nulls, h.V2.V.Rows, h.V2.V.Nulls)
	}
	if present > 0 && isNull(c.leaf) {
		return damaged("it has no type, and values")
	}
	if present > 0 {
		if err := c.pageValues(e, rest, present); err != nil {
			return err
		}
	}
	c.inPage = int(n)
	c.left -= int64(n)
	return nil
}

// levelsV1 cuts the levels of version 1 off the page.
func levelsV1(b []byte, highest int) (levels, rest []byte, err error) {
	if highest == 0 {
		return nil, b, nil
	}
	if len(b) < 4 {
		return nil, nil, errShort
	}
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, errShort
	}
	return b[:n], b[n:], nil
}

// levelsOf are the levels of n values, and how many of them are one level.
func levelsOf(b []byte, highest, n, counted int) (h hybrid, count int, err error) {
	if h.width = mathbits.Len(uint(highest)); highest > 0 {
		h.b = b
	}
	count, err = h.check(n, uint64(highest)+1, uint64(counted))
	return h, count, err
}

func (c *Column) decompress(dst, raw []byte, size int, isStored bool) ([]byte, error) {
	expand := codecs[c.chunk.Codec]
	if isStored || size == 0 && len(raw) == 0 {
		expand = stored
	}
	b, err := expand(c.group, dst, raw, size)
	if err != nil {
		return nil, damaged("decompressing a page: %w", err)
	}
	return b, nil
}
