package columns

import "encoding/binary"

// delta reads integers that are encoded as differences, in blocks of miniblocks.
type delta struct {
	b       []byte // that is not read; in a miniblock, from its beginning
	minis   int    // of a block
	perMini uint64
	left    uint64 // integers
	first   bool
	value   int64
	least   int64  // difference in the block
	widths  []byte // of the block's miniblocks that have not begun
	width   int
	inMini  uint64 // differences left in the miniblock
	bit     uint64
}

func newDelta(b []byte) (d delta, err error) {
	var head [3]uint64
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return d, errShort
		}
		head[i], b = v, b[n:]
	}
	first, n := binary.Varint(b)
	if n <= 0 {
		return d, errShort
	}
	const most = 1 << 30
	block, minis := head[0], head[1]
	if block == 0 || block > most || minis == 0 || minis > block || block%minis != 0 || block/minis%8 != 0 || head[2] > most*2 {
		return d, damaged("the blocks of a page are none")
	}
	return delta{b: b[n:], minis: int(minis), perMini: block / minis, left: head[2], first: true, value: first}, nil
}

func (d *delta) next() (int64, error) {
	if d.left == 0 {
		return 0, errShort
	}
	if d.left--; d.first {
		d.first = false
		return d.value, nil
	}
	if d.inMini == 0 {
		if err := d.begin(); err != nil {
			return 0, err
		}
	}
	v, ok := bitsAt(d.b, d.bit, d.width)
	if !ok {
		return 0, errShort
	}
	d.bit += uint64(d.width)
	d.value += int64(v) + d.least
	if d.inMini--; d.inMini == 0 {
		d.b = d.b[d.bit/8:]
	}
	return d.value, nil
}

// begin begins a miniblock.
func (d *delta) begin() error {
	if len(d.widths) == 0 {
		least, n := binary.Varint(d.b)
		if n <= 0 || len(d.b) < n+d.minis {
			return errShort
		}
		d.least, d.widths, d.b = least, d.b[n:n+d.minis], d.b[n+d.minis:]
	}
	if d.width = int(d.widths[0]); d.width > 64 {
		return damaged("integers have more than 64 bits")
	}
	d.widths, d.inMini, d.bit = d.widths[1:], d.perMini, 0
	return nil
}

// end is what follows the integers. It does not read them.
func (d delta) end() ([]byte, error) {
	if d.left > 0 && d.first {
		d.left--
	}
	for d.left > 0 {
		if err := d.begin(); err != nil {
			return nil, err
		}
		size := d.perMini * uint64(d.width) / 8
		if d.left <= d.perMini {
			return d.b[min(size, uint64(len(d.b))):], nil
		}
		if size > uint64(len(d.b)) {
			return nil, errShort
		}
		d.b, d.left = d.b[size:], d.left-d.perMini
	}
	return d.b, nil
}
