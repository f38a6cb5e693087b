package columns

import (
	"encoding/binary"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// decoder reads the values of a page that are not null.
type decoder interface {
	next(v *Value) error
	done() bool // all is read
}

// isReadable tells whether values of an encoding can be read.
func isReadable(e format.Encoding) bool {
	switch e {
	case format.Plain, format.RLE, format.PlainDictionary, format.RLEDictionary, format.DeltaBinaryPacked, format.DeltaLengthByteArray, format.DeltaByteArray,
		format.ByteStreamSplit:
		return true
	}
	return false
}

// form is how values of a type are laid out.
type form struct {
	kind parquet.Kind
	size int // of a value in bytes, or 0
}

func formOf(physical format.Type, t parquet.Type) form {
	f := form{kind: parquet.Kind(physical)}
	switch f.kind {
	case parquet.Int32, parquet.Float:
		f.size = 4
	case parquet.Int64, parquet.Double:
		f.size = 8
	case parquet.Int96:
		f.size = 12
	case parquet.FixedLenByteArray:
		f.size = t.Length()
	}
	return f
}

// set sets a value of a fixed size.
func (f form) set(v *Value, b []byte) {
	switch f.kind {
	case parquet.Int32:
		v.N = uint64(int64(int32(binary.LittleEndian.Uint32(b))))
	case parquet.Float:
		v.N = uint64(binary.LittleEndian.Uint32(b))
	case parquet.Int64, parquet.Double:
		v.N = binary.LittleEndian.Uint64(b)
	default:
		v.Bytes = b
	}
}

// decoderOf is the decoder of a page. Not every encoding is for every type.
func (c *Column) decoderOf(e format.Encoding, b []byte) (decoder, error) {
	integers := c.form.kind == parquet.Int32 || c.form.kind == parquet.Int64
	switch {
	case e == format.Plain && c.form.kind == parquet.Boolean:
		return &plainBooleans{b: b}, nil
	case e == format.Plain:
		return &plain{form: c.form, b: b}, nil
	case e == format.RLE && c.form.kind == parquet.Boolean:
		if len(b) < 4 {
			return nil, errShort
		}
		return &booleans{hybrid{b: b[4:], width: 1}}, nil
	case e == format.PlainDictionary || e == format.RLEDictionary:
		return c.indexes(b)
	case e == format.DeltaBinaryPacked && integers:
		d, err := newDelta(b)
		return &deltas{d, c.form.kind == parquet.Int32}, err
	case e == format.DeltaLengthByteArray && c.form.kind == parquet.ByteArray:
		s, err := newByteArrays(b)
		return &s, err
	case e == format.DeltaByteArray && (c.form.kind == parquet.ByteArray || c.form.kind == parquet.FixedLenByteArray):
		return newPrefixed(b, c.form.size)
	case e == format.ByteStreamSplit && c.form.size > 0:
		if len(b)%c.form.size != 0 {
			return nil, damaged("the streams of a page differ in length")
		}
		return &split{form: c.form, b: b, n: len(b) / c.form.size, value: make([]byte, c.form.size)}, nil
	}
	return nil, damaged("values of %s are not encoded as %s", c.form.kind, e)
}

type plain struct {
	form
	b []byte
}

func (p *plain) next(v *Value) error {
	size := p.size
	if p.kind == parquet.ByteArray {
		if len(p.b) < 4 {
			return errShort
		}
		n := binary.LittleEndian.Uint32(p.b)
		if p.b = p.b[4:]; uint64(n) > uint64(len(p.b)) {
			return errShort
		}
		size = int(n)
	}
	if size > len(p.b) {
		return errShort
	}
	p.set(v, p.b[:size:size])
	p.b = p.b[size:]
	return nil
}

func (p *plain) done() bool { return len(p.b) == 0 }

type plainBooleans struct {
	b   []byte
	bit uint64
}

func (p *plainBooleans) next(v *Value) error {
	n, ok := bitsAt(p.b, p.bit, 1)
	if !ok {
		return errShort
	}
	v.N = n
	p.bit++
	return nil
}

func (p *plainBooleans) done() bool { return (p.bit+7)/8 == uint64(len(p.b)) }

type booleans struct{ hybrid }

func (r *booleans) next(v *Value) error {
	n, err := r.hybrid.next()
	v.N = uint64(n)
	return err
}

type deltas struct {
	delta
	short bool // of 32 bits, beyond which sums wrap around
}

func (d *deltas) next(v *Value) error {
	n, err := d.delta.next()
	if d.short {
		n = int64(int32(n))
	}
	v.N = uint64(n)
	return err
}

func (d *deltas) done() bool { return d.left == 0 }

// byteArrays are those behind all of their lengths.
type byteArrays struct {
	lengths delta
	b       []byte
}

func newByteArrays(b []byte) (s byteArrays, err error) {
	if s.lengths, err = newDelta(b); err == nil {
		s.b, err = s.lengths.end()
	}
	return s, err
}

func (s *byteArrays) next(v *Value) error {
	n, err := s.lengths.next()
	if err != nil {
		return err
	}
	if n = int64(int32(n)); n < 0 || n > int64(len(s.b)) {
		return errShort
	}
	v.Bytes, s.b = s.b[:n:n], s.b[n:]
	return nil
}

func (s *byteArrays) done() bool { return s.lengths.left == 0 && len(s.b) == 0 }

// prefixed are byte arrays that begin as the one before. None is longer than the page, as all that
// it has was in a suffix once.
type prefixed struct {
	prefixes delta
	suffixes byteArrays
	size     int
	value    []byte
}

func newPrefixed(b []byte, size int) (decoder, error) {
	prefixes, err := newDelta(b)
	if err != nil {
		return nil, err
	}
	if b, err = prefixes.end(); err != nil {
		return nil, err
	}
	suffixes, err := newByteArrays(b)
	return &prefixed{prefixes: prefixes, suffixes: suffixes, size: size}, err
}

func (p *prefixed) next(v *Value) error {
	n, err := p.prefixes.next()
	if err != nil {
		return err
	}
	if n < 0 || n > int64(len(p.value)) {
		return damaged("a value begins as more than the one before")
	}
	var suffix Value
	if err := p.suffixes.next(&suffix); err != nil {
		return err
	}
	p.value = append(p.value[:n], suffix.Bytes...)
	if p.size > 0 && len(p.value) != p.size {
		return damaged("a value has another length than its type")
	}
	v.Bytes = p.value
	return nil
}

func (p *prefixed) done() bool { return p.prefixes.left == 0 && p.suffixes.done() }

// split has the first bytes of all values, then the second, and so on.
type split struct {
	form
	b     []byte
	n, at int
	value []byte
}

func (s *split) next(v *Value) error {
	if s.at >= s.n {
		return errShort
	}
	for i := range s.value {
		s.value[i] = s.b[i*s.n+s.at]
	}
	s.set(v, s.value)
	s.at++
	return nil
}

func (s *split) done() bool { return s.at == s.n }

// dictionary is the values that pages of a column have in common.
type dictionary struct {
	form
	b    []byte
	n    int
	ends []uint32 // of byte arrays in b; nil for others
}

func newDictionary(f form, b []byte, n int) (d *dictionary, err error) {
	d = &dictionary{form: f, b: b, n: n}
	p := plain{form: f, b: b}
	switch {
	case f.kind == parquet.Boolean:
		return nil, damaged("booleans have no dictionary")
	case f.kind != parquet.ByteArray:
		if uint64(len(b)) != uint64(n)*uint64(f.size) {
			return nil, damaged("its dictionary has not as many values as it should")
		}
		return d, nil
	case n > len(b)/4:
		return nil, damaged("its dictionary has not as many values as it should")
	}
	d.ends = make([]uint32, n)
	for i := range d.ends {
		var v Value
		if err := p.next(&v); err != nil {
			return nil, err
		}
		d.ends[i] = uint32(len(b) - len(p.b))
	}
	if !p.done() {
		return nil, damaged("its dictionary has not as many values as it should")
	}
	return d, nil
}

func (d *dictionary) value(v *Value, i int) {
	from, to := i*d.size, (i+1)*d.size
	if d.ends != nil {
		from, to = 4, int(d.ends[i])
		if i > 0 {
			from += int(d.ends[i-1])
		}
	}
	d.set(v, d.b[from:to:to])
}

func (d *dictionary) held() int64 {
	if d == nil {
		return 0
	}
	return int64(cap(d.b)) + 4*int64(cap(d.ends))
}

// indexes are values that are places in the dictionary.
type indexes struct {
	hybrid
	in *dictionary
}

func (c *Column) indexes(b []byte) (decoder, error) {
	if c.dict == nil {
		return nil, damaged("its dictionary is missing")
	}
	if len(b) == 0 {
		return &plain{}, nil // there are only nulls
	}
	if b[0] > 32 {
		return nil, damaged("places in the dictionary have more than 32 bits")
	}
	return &indexes{hybrid{b: b[1:], width: int(b[0])}, c.dict}, nil
}

func (x *indexes) next(v *Value) error {
	i, err := x.hybrid.next()
	if err != nil {
		return err
	}
	if uint64(i) >= uint64(x.in.n) {
		return damaged("a value is none of the dictionary")
	}
	x.in.value(v, int(i))
	return nil
}
