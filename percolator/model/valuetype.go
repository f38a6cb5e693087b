package model

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// Type is the type of the values of a column, and so how they are stored. The empty Type is
// TypeBytes.
type Type string

// The types of columns. Values of a type whose encoding is ordered sort as their bytes do, in an
// index and in a row key.
const (
	// TypeBytes is any bytes, and what a protocol buffer is declared as.
	TypeBytes Type = "bytes"
	// TypeString is text in UTF-8. Ordered.
	TypeString Type = "string"
	// TypeInt64 is 8 bytes big-endian in two's complement, the encoding of Bigtable's own counters.
	// Negative numbers sort after the others.
	TypeInt64 Type = "int64"
	// TypeOrderedInt64 is TypeInt64 with the sign bit flipped. Ordered.
	TypeOrderedInt64 Type = "ordered_int64"
	// TypeFloat64 is 8 bytes: IEEE 754 big-endian, with all bits of a negative number flipped and
	// the sign bit of the others. Ordered; 0 and -0 are one value. NaN is none; where one is
	// stored, it is last.
	TypeFloat64 Type = "float64"
	// TypeBool is one byte, 0 or 1. Ordered.
	TypeBool Type = "bool"
	// TypeTime is the nanoseconds since 1970 in UTC as a TypeOrderedInt64, from the year 1678 to
	// 2262. Ordered.
	TypeTime Type = "time"
	// TypeJSON is one JSON text in UTF-8.
	TypeJSON Type = "json"
)

// Types are all types, in the order in which texts list them.
var Types = []Type{TypeBytes, TypeString, TypeInt64, TypeOrderedInt64, TypeFloat64, TypeBool, TypeTime, TypeJSON}

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

// Check reports what keeps b from being a value of the type: nothing, for what Parse and the
// columns of the type give. The message never quotes b.
func (t Type) Check(b []byte) error {
	var err error
	switch t {
	case TypeString:
		if !utf8.Valid(b) {
			err = errors.New("not UTF-8")
		}
	case TypeInt64:
		_, err = DecodeInt64(b)
	case TypeOrderedInt64:
		_, err = DecodeOrderedInt64(b)
	case TypeTime:
		_, err = DecodeTime(b)
	case TypeFloat64:
		var v float64
		if v, err = DecodeFloat64(b); err == nil {
			err = checkFloat64(v)
		}
	case TypeBool:
		_, err = DecodeBool(b)
	case TypeJSON:
		if !utf8.Valid(b) || !json.Valid(b) {
			err = errors.New("not JSON")
		}
	}
	return err
}

// checkFloat64 refuses NaN, which equals nothing and so has no place in an index, and -0, which has
// a second encoding of 0.
func checkFloat64(v float64) error {
	switch {
	case v != v:
		return errors.New("NaN is not a number")
	case v == 0 && math.Signbit(v):
		return errors.New("-0 is stored as 0")
	}
	return nil
}

// examples are texts that Parse takes.
var examples = map[Type]string{
	TypeBytes: "abc", TypeString: "abc", TypeInt64: "-12", TypeOrderedInt64: "-12", TypeFloat64: "2.5",
	TypeBool: "true", TypeTime: "2026-01-31T15:04:05.25Z", TypeJSON: `{"a": 1}`,
}

// aType is the type with its article.
func aType(t Type) string {
	switch t {
	case TypeInt64, TypeOrderedInt64:
		return "an " + string(t)
	case TypeBytes, TypeJSON:
		return string(t)
	}
	return "a " + string(t)
}

// Parse encodes the text form of a value. Errors name the type and an example, never the text.
func (t Type) Parse(text string) (b []byte, err error) {
	switch t {
	case TypeInt64, TypeOrderedInt64:
		var v int64
		if v, err = strconv.ParseInt(text, 10, 64); t == TypeInt64 {
			b = EncodeInt64(v)
		} else {
			b = EncodeOrderedInt64(v)
		}
	case TypeFloat64:
		var v float64
		if v, err = strconv.ParseFloat(text, 64); v != v {
			err = strconv.ErrSyntax // as a Float64 column refuses it
		}
		b = EncodeFloat64(v)
	case TypeBool:
		if b = EncodeBool(text == "true"); text != "true" && text != "false" {
			err = strconv.ErrSyntax
		}
	case TypeTime:
		var v time.Time
		if v, err = time.Parse(time.RFC3339Nano, text); err == nil {
			b, err = EncodeTime(v)
		}
	default:
		b = []byte(text)
		err = t.Check(b)
	}
	if err != nil {
		return nil, fmt.Errorf("give %s, for example %s", aType(t), examples[t])
	}
	return b, nil
}

// Format is the text form of a value, which Parse takes. Times are in UTC. Bytes are their own text
// form, UTF-8 or not. The error is that of Check, but for a NaN or -0 that is stored all the same:
// those have a text.
func (t Type) Format(b []byte) (string, error) {
	switch t {
	case TypeInt64:
		v, err := DecodeInt64(b)
		return strconv.FormatInt(v, 10), err
	case TypeOrderedInt64:
		v, err := DecodeOrderedInt64(b)
		return strconv.FormatInt(v, 10), err
	case TypeFloat64:
		v, err := DecodeFloat64(b)
		if abs := math.Abs(v); abs == 0 || 1e-6 <= abs && abs < 1e21 { // as in JSON
			return strconv.FormatFloat(v, 'f', -1, 64), err
		}
		return strconv.FormatFloat(v, 'g', -1, 64), err
	case TypeBool:
		v, err := DecodeBool(b)
		return strconv.FormatBool(v), err
	case TypeTime:
		v, err := DecodeTime(b)
		return v.Format(time.RFC3339Nano), err
	}
	return string(b), t.Check(b)
}
