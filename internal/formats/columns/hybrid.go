package columns

import (
	"encoding/binary"
	"math"
)

var errShort = damaged("a page ends before its last value")

// hybrid reads numbers of at most 32 bits that are encoded as runs of one number and as packed
// bits: levels, places in a dictionary, and booleans.
type hybrid struct {
	b      []byte // that is not read; of packed numbers, from the run's beginning
	width  int
	run    uint64 // numbers left in the run
	packed bool
	bit    uint64 // of packed numbers: where the next begins
	value  uint32 // of others
}

// check looks through the next n numbers, of which next then returns each. All have to be below a
// bound. It counts those that are one number.
func (h hybrid) check(n int, below, counted uint64) (count int, err error) {
	for n > 0 {
		v, err := h.next()
		if err != nil {
			return 0, err
		}
		if uint64(v) >= below {
			return 0, damaged("a number of a page is %d, and should be below %d", v, below)
		}
		same := 1
		if !h.packed {
			same += int(min(h.run, uint64(n-1)))
			h.run -= uint64(same - 1)
		}
		if n -= same; uint64(v) == counted {
			count += same
		}
	}
	return count, nil
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
	end := h.bit + uint64(h.width)
	if end > 8*uint64(len(h.b)) {
		return 0, errShort
	}
	var word [8]byte
	copy(word[:], h.b[h.bit/8:])
	v := binary.LittleEndian.Uint64(word[:]) >> (h.bit % 8) & (1<<h.width - 1)
	if h.bit = end; h.run == 0 { // runs may be filled up as their writers like
		h.b = h.b[end/8:]
	}
	return uint32(v), nil
}

// begin reads the header of a run.
func (h *hybrid) begin() error {
	if h.width == 0 && len(h.b) == 0 { // there is only one number, which some writers leave out
		h.run, h.packed, h.value = math.MaxUint64, false, 0
		return nil
	}
	header, n := binary.Uvarint(h.b)
	if n <= 0 {
		return errShort
	}
	h.b = h.b[n:]
	h.packed, h.run, h.bit, h.value = header&1 == 1 && h.width > 0, header>>1, 0, 0
	if header&1 == 1 {
		const most = 1 << 40 // more than any page holds
		if h.run > most {
			return damaged("a run is too long")
		}
		h.run *= 8
	}
	if h.packed {
		return nil
	}
	size := (h.width + 7) / 8
	if len(h.b) < size {
		return errShort
	}
	for i, b := range h.b[:size] {
		h.value |= uint32(b) << (8 * i)
	}
	h.b = h.b[size:]
	return nil
}
