package columns

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	mathbits "math/bits"

	"github.com/parquet-go/parquet-go/format"
)

// pageHeader is what stands before a page. What is missing is -1.
type pageHeader struct {
	typ                    format.PageType
	size, compressed       int64 // in bytes
	crc                    int64
	hasCRC, stored         bool // stored: of version 2, not compressed
	values, nulls, rows    int64
	encoding               format.Encoding
	levels                 [2]format.Encoding // of version 1: how definition and repetition levels are encoded
	defBytes, repBytes     int64              // of version 2
	hasDetails, isVersion2 bool
}

func (c *compact) pageHeader() (h pageHeader, err error) {
	err = c.fields(func(id int64, typ byte) (err error) {
		switch id {
		case 1, 2, 3, 4:
			n, err := c.int(typ)
			switch id {
			case 1:
				h.typ = format.PageType(n)
			case 2:
				h.size = n
			case 3:
				h.compressed = n
			case 4:
				h.crc, h.hasCRC = n, true
			}
			return err
		case 5, 7, 8:
			if h.hasDetails {
				return damaged("a page is of two kinds")
			}
			h.hasDetails, h.isVersion2 = true, id == 8
			return c.structure(typ, func(field int64, typ byte) error { return c.pageDetails(&h, id, field, typ) })
		}
		return c.skip(typ)
	})
	return h, err
}

// pageDetails reads a field of the header of a data page of version 1 (5) or 2 (8), or of a
// dictionary (7).
func (c *compact) pageDetails(h *pageHeader, kind, id int64, typ byte) (err error) {
	if kind == 8 && id == 7 {
		h.stored = typ == typeFalse
		return c.skip(typ)
	}
	var to *int64
	var encoding *format.Encoding
	switch {
	case id == 1:
		to = &h.values
	case kind != 8 && id == 2, kind == 8 && id == 4:
		encoding = &h.encoding
	case kind == 5 && (id == 3 || id == 4):
		encoding = &h.levels[id-3]
	case kind == 8 && id == 2:
		to = &h.nulls
	case kind == 8 && id == 3:
		to = &h.rows
	case kind == 8 && id == 5:
		to = &h.defBytes
	case kind == 8 && id == 6:
		to = &h.repBytes
	default:
		return c.skip(typ)
	}
	n, err := c.int(typ)
	if to != nil {
		*to = n
	} else {
		*encoding = format.Encoding(n)
	}
	return err
}

// check refuses a header that contradicts itself or the metadata, before memory is taken for the
// page.
func (c *Column) check(h pageHeader) error {
	levels := h.defBytes + h.repBytes
	switch {
	case h.compressed < 0 || h.compressed > c.bytes-c.header.read-c.bodies:
		return damaged("a page is larger than the column")
	case h.size < 0 || h.values < 0 || h.values > 1<<31-1:
		return damaged("a page has sizes that are none")
	case h.size > MaxPageBytes || h.compressed > MaxPageBytes:
		return fmt.Errorf("a page has %d bytes, at most %d are supported", max(h.size, h.compressed), MaxPageBytes)
	case h.typ != format.IndexPage && !h.hasDetails, h.isVersion2 != (h.typ == format.DataPageV2):
		return damaged("a page is not of its kind")
	case h.isVersion2 && (h.defBytes < 0 || h.repBytes < 0 || levels > h.size || levels > h.compressed || h.nulls < 0 || h.nulls > h.values):
		return damaged("a page has sizes that are none")
	case (h.stored || c.chunk.codec == format.Uncompressed) && h.size != h.compressed:
		return damaged("a page is not compressed, and has two sizes")
	}
	if h.typ != format.DataPage && h.typ != format.DataPageV2 {
		return nil
	}
	// No writer leaves out this one, and those that do not know it could mistake it for PLAIN.
	const split = 1 << format.ByteStreamSplit
	switch {
	case h.values > c.left:
		return damaged("it has more values than the metadata say")
	case h.encoding < 0 || h.encoding > 31 || !isReadable(h.encoding):
		return fmt.Errorf("values are encoded as %s, which is not supported", h.encoding)
	case (c.chunk.encodings|1<<h.encoding)&split != 0 && c.chunk.encodings&(1<<h.encoding) == 0:
		return damaged("values are encoded in another way than the metadata say")
	case !h.isVersion2 && (c.leaf.MaxDefinitionLevel > 0 && h.levels[0] != format.RLE || c.leaf.MaxRepetitionLevel > 0 && h.levels[1] != format.RLE):
		return fmt.Errorf("levels are encoded as %s and %s, which is not supported", h.levels[0], h.levels[1])
	}
	return nil
}

// nextPage reads pages up to the next one that has values. io.EOF: there is none.
func (c *Column) nextPage() error {
	for {
		h, err := c.header.pageHeader()
		switch {
		case err == io.EOF && c.left == 0: //nolint:errorlint // returned as it is
			return io.EOF
		case err == io.EOF: //nolint:errorlint // likewise
			return damaged("it ends before its last %d values", c.left)
		case err != nil:
			return asDamage(err)
		}
		if err := c.check(h); err != nil {
			return err
		}
		if err := c.body(h); err != nil {
			return err
		}
		c.bodies += h.compressed
		if c.inPage > 0 {
			return nil
		}
	}
}

// body reads what follows a header.
func (c *Column) body(h pageHeader) error {
	if h.typ == format.IndexPage {
		_, err := c.header.r.Discard(int(h.compressed))
		return asDamage(unexpected(err))
	}
	raw := sized(c.group.scratch, int(h.compressed))
	c.group.scratch = raw
	if _, err := io.ReadFull(c.header.r, raw); err != nil {
		return asDamage(unexpected(err))
	}
	if h.hasCRC && uint32(h.crc) != crc32.ChecksumIEEE(raw) {
		return damaged("a page has another checksum than its header")
	}
	if h.typ == format.DictionaryPage {
		return c.dictionaryPage(h, raw)
	}
	return c.dataPage(h, raw)
}

func (c *Column) dictionaryPage(h pageHeader, raw []byte) error {
	switch {
	case c.dict != nil:
		return damaged("it has two dictionaries")
	case h.encoding != format.Plain && h.encoding != format.PlainDictionary:
		return fmt.Errorf("its dictionary is encoded as %s, which is not supported", h.encoding)
	}
	if err := c.group.hold(2 * h.size); err != nil { // with the places of its values
		return err
	}
	b, err := c.decompress(nil, raw, h.size, false)
	if err != nil {
		return err
	}
	if c.dict, err = newDictionary(c.form, b, int(h.values)); err != nil {
		return err
	}
	c.group.held += c.dict.held() - 2*h.size
	return nil
}

func (c *Column) dataPage(h pageHeader, raw []byte) (err error) {
	size := h.size
	if h.isVersion2 {
		n := h.repBytes + h.defBytes
		size -= n
		if err := c.group.reuse(&c.levels, n); err != nil {
			return err
		}
		c.levels = sized(c.levels, int(n))
		copy(c.levels, raw)
		c.reps.b, c.defs.b = c.levels[:h.repBytes], c.levels[h.repBytes:]
		raw = raw[n:]
	}
	if err := c.group.reuse(&c.buf, size); err != nil {
		return err
	}
	if c.buf, err = c.decompress(c.buf, raw, size, h.stored); err != nil {
		return err
	}
	c.rest = c.buf
	if !h.isVersion2 {
		if c.reps.b, err = c.levelsV1(c.leaf.MaxRepetitionLevel); err == nil {
			c.defs.b, err = c.levelsV1(c.leaf.MaxDefinitionLevel)
		}
		if err != nil {
			return err
		}
		h.nulls, h.rows = -1, -1
	}
	c.reps = hybrid{b: c.reps.b, width: mathbits.Len(uint(c.leaf.MaxRepetitionLevel))}
	c.defs = hybrid{b: c.defs.b, width: mathbits.Len(uint(c.leaf.MaxDefinitionLevel))}
	c.page, c.values, c.rows, c.nulls = h, nil, 0, 0
	c.inPage = h.values
	c.left -= h.values
	return nil
}

// levelsV1 cuts the levels of version 1 off the page.
func (c *Column) levelsV1(highest int) (levels []byte, err error) {
	if highest == 0 {
		return nil, nil
	}
	if len(c.rest) < 4 {
		return nil, errShort
	}
	n := uint64(c.rest[0]) | uint64(c.rest[1])<<8 | uint64(c.rest[2])<<16 | uint64(c.rest[3])<<24
	if c.rest = c.rest[4:]; n > uint64(len(c.rest)) {
		return nil, errShort
	}
	levels, c.rest = c.rest[:n], c.rest[n:]
	return levels, nil
}

func (c *Column) decompress(dst, raw []byte, size int64, isStored bool) ([]byte, error) {
	decode := codecs[c.chunk.codec]
	if isStored || size == 0 && len(raw) == 0 {
		decode = stored
	}
	b, err := decode(c.group, dst, raw, int(size))
	if err != nil {
		return nil, damaged("decompressing a page: %w", err)
	}
	return b, nil
}

// endPage compares a page with its counts.
func (c *Column) endPage() error {
	switch {
	case c.page.nulls >= 0 && c.page.nulls != c.nulls, c.page.rows >= 0 && c.page.rows != c.rows:
		return damaged("a page has %d rows and %d nulls, and its header says %d and %d", c.rows, c.nulls, c.page.rows, c.page.nulls)
	case c.values != nil && !c.values.done():
		return damaged("a page has more values than its header says")
	}
	return nil
}

var errHeld = errors.New("pages and dictionaries are too large to be in memory at once")
