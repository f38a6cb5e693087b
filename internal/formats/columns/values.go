package columns

import (
	"encoding/binary"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// plainDictionary is what older writers call places in a dictionary, and its values.
const plainDictionary format.Encoding = 2

// isReadable tells whether values of an encoding can be read.
func isReadable(e format.Encoding) bool {
	switch e {
	case format.Plain, format.RLE, plainDictionary, format.RLEDictionary, format.DeltaBinaryPacked, format.DeltaLengthByteArray, format.DeltaByteArray,
		format.ByteStreamSplit:
		return true
	}
	return false
}

// typeOf is a type without a meaning: values are as they are stored.
func typeOf(physical format.Type, leaf parquet.LeafColumn) parquet.Type {
	if physical == format.FixedLenByteArray {
		return parquet.FixedLenByteArrayType(leaf.Node.Type().Length())
	}
	return []parquet.Type{parquet.BooleanType, parquet.Int32Type, parquet.Int64Type, parquet.Int96Type, parquet.FloatType, parquet.DoubleType, parquet.ByteArrayType}[physical]
}

// booleans are false and true.
var booleans = parquet.BooleanType.NewDictionary(0, 2, encoding.BooleanValues([]byte{0b10}))

// pageValues begins to read the n values of a page that are not null.
func (c *Column) pageValues(e format.Encoding, b []byte, n int) (err error) {
	c.at, c.places = 0, nil
	switch {
	case e == format.RLEDictionary || e == plainDictionary:
		if c.dict == nil {
			return damaged("its dictionary is missing")
		}
		if len(b) == 0 || b[0] > 32 {
			return damaged("places in the dictionary have no width, or more than 32 bits")
		}
		c.list, c.places = c.dict, &hybrid{b: b[1:], width: int(b[0])}
	case e == format.RLE && c.typ.Kind() == parquet.Boolean:
		if len(b) < 4 {
			return errShort
		}
		c.list, c.places = booleans, &hybrid{b: b[4:], width: 1}
	default:
		c.list, err = c.decode(e, b, n)
		return err
	}
	_, err = c.places.check(n, uint64(c.list.Len()), 0)
	return err
}

// value is the next one.
func (c *Column) value() parquet.Value {
	i := c.at
	if c.at++; c.places != nil {
		place, _ := c.places.next() // which was checked
		i = int32(place)
	}
	v := c.list.Index(i)
	if v.Kind() == parquet.Int64 && c.typ.Kind() == parquet.Int32 {
		v = parquet.Int32Value(int32(v.Int64()))
	}
	return v
}

// decode lets the library decode n values, in place where it can.
func (c *Column) decode(e format.Encoding, b []byte, n int) (list parquet.Dictionary, err error) {
	defer recovered(&err)
	b = slices.Clip(b) // the library reads up to the capacity
	switch kind := c.typ.Kind(); {
	case e == format.Plain && kind == parquet.ByteArray:
		if n > len(b)/4 {
			return nil, errShort
		}
		if err := c.hold(4 * int64(n+1)); err != nil {
			return nil, err
		}
		return listOf(c.typ, e, n, b, b[:0], make([]uint32, 0, n+1))
	case e == format.Plain:
		return listOf(c.typ, e, n, b, b[:0], nil)
	case e == format.ByteStreamSplit && kind != parquet.ByteArray:
		if err := c.hold(int64(len(b))); err != nil {
			return nil, err
		}
		return listOf(c.typ, e, n, b, make([]byte, 0, len(b)), nil)
	case e == format.DeltaBinaryPacked && (kind == parquet.Int32 || kind == parquet.Int64):
		if err := c.hold(8 * int64(n)); err != nil {
			return nil, err
		}
		end, err := deltas(b, n)
		if err != nil {
			return nil, err
		}
		return listOf(parquet.Int64Type, e, n, b[:end:end], nil, nil) // of INT32 some have 33 bits
	case e == format.DeltaLengthByteArray && kind == parquet.ByteArray, e == format.DeltaByteArray && (kind == parquet.ByteArray || kind == parquet.FixedLenByteArray):
		return c.texts(b, n, e == format.DeltaByteArray)
	default:
		return nil, damaged("values of %s are not encoded as %s", kind, e)
	}
}

// listOf decodes n values of a type.
func listOf(typ parquet.Type, e format.Encoding, n int, b, into []byte, offsets []uint32) (parquet.Dictionary, error) {
	values, err := typ.Decode(typ.NewValues(into, offsets), b, parquet.LookupEncoding(e))
	if err != nil {
		return nil, damaged("%w", err)
	}
	has, want := int(values.Size()), typ.EstimateSize(n)
	if typ.Kind() == parquet.ByteArray {
		_, offsets = values.Data()
		has, want = len(offsets), n+1
	}
	if has != want {
		return nil, damaged("a page or a dictionary has not as many values as it should")
	}
	return typ.NewDictionary(0, n, values), nil
}

// texts are n byte arrays behind all of their lengths. Those with prefixes begin as the one before:
// first stand the lengths of these beginnings.
func (c *Column) texts(b []byte, n int, prefixed bool) (list parquet.Dictionary, err error) {
	var prefixes []int64
	var begin int64
	if prefixed {
		if prefixes, begin, b, err = c.lengths(b, n); err != nil {
			return nil, err
		}
	}
	suffixes, all, b, err := c.lengths(b, n)
	if err != nil {
		return nil, err
	}
	if all != int64(len(b)) {
		return nil, damaged("values of a page have %d bytes, and it has %d", all, len(b))
	}
	values, offsets := make([]byte, 0, begin+all), make([]uint32, 1, n+1)
	var last []byte
	for i, suffix := range suffixes {
		from := len(values)
		if prefixed {
			if prefixes[i] > int64(len(last)) {
				return nil, damaged("a value begins as more than the one before")
			}
			values = append(values, last[:prefixes[i]]...)
		}
		values, b = append(values, b[:suffix]...), b[suffix:]
		if last = values[from:]; c.typ.Kind() == parquet.FixedLenByteArray && len(last) != c.typ.Length() {
			return nil, damaged("a value has another length than its type")
		}
		offsets = append(offsets, uint32(len(values)))
	}
	return parquet.ByteArrayType.NewDictionary(0, n, encoding.ByteArrayValues(values, offsets)), nil
}

// lengths are n lengths, encoded as differences, their sum, of which it counts the memory, and what
// follows.
func (c *Column) lengths(b []byte, n int) (list []int64, all int64, rest []byte, err error) {
	const taken = 12 // for a length and an offset
	if err := c.hold(taken * int64(n+1)); err != nil {
		return nil, 0, nil, err
	}
	end, err := deltas(b, n)
	if err != nil {
		return nil, 0, nil, err
	}
	if list, err = parquet.DeltaBinaryPacked.DecodeInt64(nil, b[:end:end]); err != nil {
		return nil, 0, nil, damaged("%w", err)
	}
	for _, length := range list {
		if length < 0 || length > MaxPageBytes {
			return nil, 0, nil, damaged("a length is %d", length)
		}
		all += length
	}
	return list, all, b[end:], c.hold(all)
}

// deltas is where n integers end that are encoded as differences. The library would make room for
// as many as they claim to be, and read bits behind the end.
func deltas(b []byte, n int) (end int, err error) {
	var head [3]uint64
	rest := b
	for i := range head {
		v, size := binary.Uvarint(rest)
		if size <= 0 {
			return 0, errShort
		}
		head[i], rest = v, rest[size:]
	}
	_, size := binary.Varint(rest)
	if size <= 0 {
		return 0, errShort
	}
	const most = 1 << 16 // which the library knows
	block, minis := head[0], head[1]
	if block > most || minis == 0 || minis > block || head[2] != uint64(n) {
		return 0, damaged("the blocks of a page are none, or have not as many values as they should")
	}
	rest = rest[size:]
	each := int(block / minis)
	for left := n - 1; left > 0; {
		_, size := binary.Varint(rest)
		if size <= 0 || len(rest) < size+int(minis) {
			return 0, errShort
		}
		widths := rest[size : size+int(minis)]
		for rest = rest[size+int(minis):]; left > 0 && len(widths) > 0; widths = widths[1:] {
			width := int(widths[0])
			if width > 64 || min(left, each)*width > 8*len(rest) {
				return 0, damaged("integers of a page have more than 64 bits, or less than they should")
			}
			rest = rest[min(each*width/8, len(rest)):]
			left -= each
		}
	}
	return len(b) - len(rest), nil
}
