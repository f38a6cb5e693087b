// Package values encodes the values of typed columns as bytes.
package values

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"
)

const signBit = 1 << 63

// EncodeInt64 encodes a TypeInt64.
func EncodeInt64(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// DecodeInt64 is the inverse of EncodeInt64.
func DecodeInt64(b []byte) (int64, error) {
	v, err := eightBytes(b, "an int64")
	return int64(v), err
}

// EncodeOrderedInt64 encodes a TypeOrderedInt64.
func EncodeOrderedInt64(v int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(v)^signBit)
}

// DecodeOrderedInt64 is the inverse of EncodeOrderedInt64.
func DecodeOrderedInt64(b []byte) (int64, error) {
	v, err := eightBytes(b, "an ordered_int64")
	return int64(v ^ signBit), err
}

// EncodeFloat64 encodes a TypeFloat64. Equal numbers, and all NaNs, have one encoding each.
func EncodeFloat64(v float64) []byte {
	switch {
	case v == 0:
		v = 0 // and not -0
	case v != v:
		v = math.NaN()
	}
	bits := math.Float64bits(v)
	if bits&signBit != 0 {
		bits = ^bits
	} else {
		bits |= signBit
	}
	return binary.BigEndian.AppendUint64(nil, bits)
}

// DecodeFloat64 is the inverse of EncodeFloat64.
func DecodeFloat64(b []byte) (float64, error) {
	bits, err := eightBytes(b, "a float64")
	if bits&signBit != 0 {
		bits ^= signBit
	} else {
		bits = ^bits
	}
	return math.Float64frombits(bits), err
}

// EncodeBool encodes a TypeBool.
func EncodeBool(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// DecodeBool is the inverse of EncodeBool.
func DecodeBool(b []byte) (bool, error) {
	if len(b) != 1 || b[0] > 1 {
		return false, errors.New("not a bool")
	}
	return b[0] == 1, nil
}

var (
	finer    = regexp.MustCompile(`[.,][0-9]{9}[0-9]*[1-9]`)
	fullHour = regexp.MustCompile(`[+-][0-9]{2}:?60$`)
)

// ParseTime is time.Parse, but refuses the digits below a nanosecond that it would cut off, and the
// offsets that no zone has, up to +24:60.
func ParseTime(layout, text string) (time.Time, error) {
	if finer.MatchString(text) {
		return time.Time{}, errors.New("a fraction of a nanosecond")
	}
	t, err := time.Parse(layout, text)
	if _, offset := t.Zone(); err == nil && (max(offset, -offset) >= 24*60*60 || fullHour.MatchString(text)) {
		return time.Time{}, errors.New("an offset from UTC of 24 hours or 60 minutes")
	}
	return t, err
}

// EncodeTime encodes a TypeTime, and refuses one that nanoseconds in 64 bits cannot tell.
func EncodeTime(v time.Time) ([]byte, error) {
	ns := v.UnixNano()
	if !time.Unix(0, ns).Equal(v) {
		return nil, errors.New("not a time between the years 1678 and 2262")
	}
	return EncodeOrderedInt64(ns), nil
}

// DecodeTime is the inverse of EncodeTime. The time is in UTC.
func DecodeTime(b []byte) (time.Time, error) {
	ns, err := DecodeOrderedInt64(b)
	if err != nil {
		return time.Time{}, fmt.Errorf("%d bytes are not a time", len(b))
	}
	return time.Unix(0, ns).UTC(), nil
}

func eightBytes(b []byte, what string) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%d bytes are not %s", len(b), what)
	}
	return binary.BigEndian.Uint64(b), nil
}
