package columns

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// Types of Thrift's compact protocol.
const (
	typeTrue   = 1
	typeFalse  = 2
	typeByte   = 3
	typeI16    = 4
	typeI32    = 5
	typeI64    = 6
	typeDouble = 7
	typeBinary = 8
	typeList   = 9
	typeSet    = 10
	typeMap    = 11
	typeStruct = 12
	typeUUID   = 13
)

// maxThriftDepth bounds how structs and lists lie in each other. Those of Parquet need 8.
const maxThriftDepth = 32

// compact reads Thrift's compact protocol. It allocates nothing: what is not asked for is passed
// over, however large it claims to be.
type compact struct {
	r     *bufio.Reader
	read  int64
	depth int
}

func (c *compact) byte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.read++
	}
	return b, err
}

func (c *compact) uvarint() (v uint64, err error) {
	for shift := uint(0); shift < 64; shift += 7 {
		b, err := c.byte()
		if err != nil {
			return 0, unexpected(err)
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, damaged("a number is too long")
}

func (c *compact) varint() (int64, error) {
	v, err := c.uvarint()
	return int64(v>>1) ^ -int64(v&1), err
}

// int reads an integer of a field that should be one.
func (c *compact) int(typ byte) (int64, error) {
	switch typ {
	case typeI16, typeI32, typeI64:
		return c.varint()
	}
	return 0, damaged("a field of the metadata is no number")
}

func (c *compact) discard(n uint64) error {
	for n > 0 {
		done, err := c.r.Discard(int(min(n, math.MaxInt32)))
		c.read += int64(done)
		if err != nil {
			return unexpected(err)
		}
		n -= uint64(done)
	}
	return nil
}

// fields reads a struct. field takes or skips the value of each field.
func (c *compact) fields(field func(id int64, typ byte) error) error {
	if c.depth++; c.depth > maxThriftDepth {
		return damaged("the metadata are nested too deeply")
	}
	defer func() { c.depth-- }()
	for id, first := int64(0), true; ; first = false {
		b, err := c.byte()
		if err != nil {
			if first && c.depth == 1 {
				return err // io.EOF: there is no struct
			}
			return unexpected(err)
		}
		if b&15 == 0 {
			return nil
		}
		if delta := int64(b >> 4); delta > 0 {
			id += delta
		} else if id, err = c.varint(); err != nil {
			return err
		}
		if err := field(id, b&15); err != nil {
			return err
		}
	}
}

// structure is fields of a field that should be a struct.
func (c *compact) structure(typ byte, field func(id int64, typ byte) error) error {
	if typ != typeStruct {
		return damaged("a field of the metadata is no struct")
	}
	return c.fields(field)
}

// list reads a list of elements of one type. element takes or skips each.
func (c *compact) list(typ, of byte, most int, what string, element func(i int) error) error {
	if typ != typeList {
		return damaged("a field of the metadata is no list")
	}
	n, is, err := c.listHeader()
	switch {
	case err != nil:
		return err
	case n > 0 && is != of:
		return damaged("a list of the metadata holds something else")
	case n > uint64(most):
		return fmt.Errorf("it has more than %d %s", most, what)
	}
	for i := range int(n) {
		if err := element(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *compact) listHeader() (n uint64, of byte, err error) {
	b, err := c.byte()
	if err != nil {
		return 0, 0, unexpected(err)
	}
	if n = uint64(b >> 4); n == 15 {
		n, err = c.uvarint()
	}
	return n, b & 15, err
}

// skip passes over the value of a field.
func (c *compact) skip(typ byte) error {
	if typ == typeTrue || typ == typeFalse { // a field's type is its value
		return nil
	}
	return c.skipElement(typ)
}

// skipElement passes over an element of a list.
func (c *compact) skipElement(typ byte) error {
	switch typ {
	case typeTrue, typeFalse, typeByte:
		return c.discard(1)
	case typeI16, typeI32, typeI64:
		_, err := c.uvarint()
		return err
	case typeDouble:
		return c.discard(8)
	case typeUUID:
		return c.discard(16)
	case typeBinary:
		n, err := c.uvarint()
		if err != nil {
			return err
		}
		return c.discard(n)
	case typeStruct:
		return c.fields(func(_ int64, typ byte) error { return c.skip(typ) })
	case typeList, typeSet, typeMap:
		return c.skipItems(typ)
	}
	return damaged("the metadata have a value of an unknown type")
}

func (c *compact) skipItems(typ byte) (err error) {
	if c.depth++; c.depth > maxThriftDepth {
		return damaged("the metadata are nested too deeply")
	}
	defer func() { c.depth-- }()
	var n uint64
	var of []byte
	if typ == typeMap {
		if n, err = c.uvarint(); err != nil || n == 0 {
			return err
		}
		both, err := c.byte()
		if err != nil {
			return unexpected(err)
		}
		of = []byte{both >> 4, both & 15}
	} else {
		var one byte
		if n, one, err = c.listHeader(); err != nil {
			return err
		}
		of = []byte{one}
	}
	for range n {
		for _, typ := range of {
			if err := c.skipElement(typ); err != nil {
				return err
			}
		}
	}
	return nil
}

func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}
