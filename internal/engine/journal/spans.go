package journal

import (
	"encoding/binary"
	"slices"
)

// span is the numbers from from to below to.
type span struct{ from, to uint64 }

// spans are numbers of rows, in order, with at least one number between any two.
type spans []span

// at is the place of the first span that ends above a number.
func (s spans) at(seq uint64) int {
	at, _ := slices.BinarySearchFunc(s, seq, func(s span, seq uint64) int {
		if s.to <= seq {
			return -1
		}
		return 1
	})
	return at
}

// Contains reports whether a number is among them.
func (s spans) Contains(seq uint64) bool {
	at := s.at(seq)
	return at < len(s) && s[at].from <= seq
}

// add adds the numbers from from to below to.
func (s *spans) add(from, to uint64) {
	if from >= to {
		return
	}
	first := s.at(max(from, 1) - 1) // it may end at from
	last := first
	for ; last < len(*s) && (*s)[last].from <= to; last++ {
		from, to = min(from, (*s)[last].from), max(to, (*s)[last].to)
	}
	*s = slices.Replace(*s, first, last, span{from, to})
}

// remove removes the numbers from from to below to.
func (s *spans) remove(from, to uint64) {
	if from >= to {
		return
	}
	first, last := s.at(from), s.at(to)
	var left []span
	if first < len(*s) && (*s)[first].from < from {
		left = append(left, span{(*s)[first].from, from})
	}
	if last < len(*s) && (*s)[last].from < to {
		left = append(left, span{to, (*s)[last].to})
		last++
	}
	*s = slices.Replace(*s, first, last, left...)
}

// narrow has spans become one while there are more than most: those with the fewest numbers in
// between.
func (s *spans) narrow(most int) {
	for len(*s) > most {
		nearest := 1
		for i := 2; i < len(*s); i++ {
			if s.between(i) < s.between(nearest) {
				nearest = i
			}
		}
		(*s)[nearest-1].to = (*s)[nearest].to
		*s = slices.Delete(*s, nearest, nearest+1)
	}
}

// between is how many numbers are between a span and the one before.
func (s spans) between(at int) uint64 { return s[at].from - s[at-1].to }

// size is how many numbers they contain.
func (s spans) size() (n int) {
	for _, x := range s {
		n += int(x.to - x.from)
	}
	return n
}

// spansVersion is the first byte of encoded spans. For each follow two unsigned varints: how many
// numbers there are between it and the one before, and how many it contains.
const spansVersion = 1

func (s spans) encode() []byte {
	b, end := []byte{spansVersion}, uint64(0)
	for _, x := range s {
		b = binary.AppendUvarint(b, x.from-end)
		b = binary.AppendUvarint(b, x.to-x.from)
		end = x.to
	}
	return b
}

// decodeSpans is the inverse of encode; ok is false for what encode did not return.
func decodeSpans(b []byte) (s spans, ok bool) {
	if len(b) == 0 || b[0] != spansVersion {
		return nil, false
	}
	d, end := decoder{rest: b[1:]}, uint64(0)
	for len(d.rest) > 0 {
		from := end + d.number()
		to := from + d.number()
		if d.failed || from < end || from == end && len(s) > 0 || to <= from {
			return nil, false
		}
		s, end = append(s, span{from, to}), to
	}
	return s, true
}
