package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/values"
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
		_, err = values.DecodeInt64(b)
	case TypeOrderedInt64:
		_, err = values.DecodeOrderedInt64(b)
	case TypeTime:
		_, err = values.DecodeTime(b)
	case TypeFloat64:
		var v float64
		if v, err = values.DecodeFloat64(b); err == nil {
			err = checkFloat64(v)
		}
	case TypeBool:
		_, err = values.DecodeBool(b)
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
			b = values.EncodeInt64(v)
		} else {
			b = values.EncodeOrderedInt64(v)
		}
	case TypeFloat64:
		var v float64
		if v, err = strconv.ParseFloat(text, 64); v != v {
			err = strconv.ErrSyntax // as a Float64 column refuses it
		}
		b = values.EncodeFloat64(v)
	case TypeBool:
		if b = values.EncodeBool(text == "true"); text != "true" && text != "false" {
			err = strconv.ErrSyntax
		}
	case TypeTime:
		var v time.Time
		if v, err = time.Parse(time.RFC3339Nano, text); err == nil {
			b, err = values.EncodeTime(v)
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
		v, err := values.DecodeInt64(b)
		return strconv.FormatInt(v, 10), err
	case TypeOrderedInt64:
		v, err := values.DecodeOrderedInt64(b)
		return strconv.FormatInt(v, 10), err
	case TypeFloat64:
		v, err := values.DecodeFloat64(b)
		if abs := math.Abs(v); abs == 0 || 1e-6 <= abs && abs < 1e21 { // as in JSON
			return strconv.FormatFloat(v, 'f', -1, 64), err
		}
		return strconv.FormatFloat(v, 'g', -1, 64), err
	case TypeBool:
		v, err := values.DecodeBool(b)
		return strconv.FormatBool(v), err
	case TypeTime:
		v, err := values.DecodeTime(b)
		return v.Format(time.RFC3339Nano), err
	}
	return string(b), t.Check(b)
}
