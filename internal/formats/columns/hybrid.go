package columns

import "encoding/binary"

var errShort = damaged("a page ends before its last value")

// hybrid reads numbers that are encoded as runs of one number and as packed bits: levels, indexes
// into a dictionary, and booleans.
type hybrid struct {
	b      []byte // of what is not read; of packed numbers, from the run's beginning
	width  int
	run    uint64 // numbers left in the run
	packed bool
	bit    uint64 // of packed numbers: where the next begins
	value  uint32 // of others
}

func (h *hybrid) next() (uint32, error) {
	for h.run == 0 {
		if err := h.begin(); err != nil {
			return 0, err
		}
	}
	h.run--
	if !h.packed {
		return h.value, nil
	}
	v, ok := bitsAt(h.b, h.bit, h.width)
	if !ok {
		return 0, errShort
	}
	if h.bit += uint64(h.width); h.run == 0 {
		h.b = h.b[min(h.bit/8, uint64(len(h.b))):]
	}
	return uint32(v), nil
}

// done does not tell whether all numbers were read: writers fill up runs as they like.
func (h *hybrid) done() bool { return true }

// begin reads the header of a run.
func (h *hybrid) begin() error {
	if h.width == 0 && len(h.b) == 0 { // there is only one number, which some writers leave out
		h.run, h.packed, h.value = 1, false, 0
		return nil
	}
	header, n := binary.Uvarint(h.b)
	if n <= 0 {
		return errShort
	}
	h.b = h.b[n:]
	h.packed, h.run, h.bit = header&1 == 1, header>>1, 0
	if h.packed {
		const most = 1 << 40 // more than any page holds
		if h.run > most {
			return damaged("a run is too long")
		}
		h.run *= 8
		return nil
	}
	size := (h.width + 7) / 8
	if len(h.b) < size {
		return errShort
	}
	h.value = 0
	for i, b := range h.b[:size] {
		h.value |= uint32(b) << (8 * i)
	}
	h.b = h.b[size:]
	return nil
}

// bitsAt is the number of width bits at a bit of b.
func bitsAt(b []byte, at uint64, width int) (v uint64, ok bool) {
	if at+uint64(width) > 8*uint64(len(b)) {
		return 0, false
	}
	b = b[at/8:]
	shift := at % 8
	if len(b) >= 9 {
		v = binary.LittleEndian.Uint64(b) >> shift
		if shift > 0 {
			v |= uint64(b[8]) << (64 - shift)
		}
	} else {
		for i := range uint64(len(b)) {
			if i*8 >= shift {
				v |= uint64(b[i]) << (i*8 - shift)
			} else {
				v |= uint64(b[i]) >> shift
			}
		}
	}
	if width < 64 {
		v &= 1<<width - 1
	}
	return v, true
}
