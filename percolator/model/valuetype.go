package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/catalog/values"
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
func (t Type) Check(b []byte) error { return t.about().check(b) }

// Decode is a value as Go has it: []byte, string, int64, float64, bool, time.Time in UTC, or
// json.RawMessage. The error is that of Check, but for a NaN or -0 that is stored all the same.
func (t Type) Decode(b []byte) (any, error) { return t.about().decode(b) }

// Encode is the inverse of Decode, and takes text as []byte, too. The error holds nothing of v.
func (t Type) Encode(v any) ([]byte, error) { return t.about().encode(v) }

// Parse encodes the text form of a value. Errors name the type and an example, never the text.
func (t Type) Parse(text string) ([]byte, error) {
	a := t.about()
	b, err := a.parse(text)
	if err != nil {
		return nil, fmt.Errorf("give %s, for example %s", a.named, a.example)
	}
	return b, nil
}

// Format is the text form of a value, which Parse takes. Times are in UTC. Bytes are their own text
// form, UTF-8 or not. The error is that of Decode.
func (t Type) Format(b []byte) (string, error) { return t.about().format(b) }

// IsText reports whether a value is its own text form, and so may be cut.
func (t Type) IsText() bool { return t.about().isText }

// about is what there is to know of a type.
type about struct {
	named, example string // with its article; a text that parse takes
	isText         bool

	check  func([]byte) error
	decode func([]byte) (any, error)
	encode func(any) ([]byte, error)
	parse  func(string) ([]byte, error)
	format func([]byte) (string, error)
}

func (t Type) about() *about {
	if a, ok := types[t]; ok {
		return a
	}
	return types[TypeBytes]
}

// types has an entry for each of Types.
var types = map[Type]*about{
	TypeBytes:        textual("bytes", "abc", func([]byte) error { return nil }, func(b []byte) any { return b }),
	TypeString:       textual("a string", "abc", checkUTF8, func(b []byte) any { return string(b) }),
	TypeJSON:         textual("json", `{"a": 1}`, checkJSON, func(b []byte) any { return json.RawMessage(b) }),
	TypeInt64:        scalar("an int64", "-12", values.DecodeInt64, always(values.EncodeInt64), parseInt64, formatInt64),
	TypeOrderedInt64: scalar("an ordered_int64", "-12", values.DecodeOrderedInt64, always(values.EncodeOrderedInt64), parseInt64, formatInt64),
	TypeFloat64:      scalar("a float64", "2.5", values.DecodeFloat64, always(values.EncodeFloat64), parseFloat64, formatFloat64).checked(checkFloat64),
	TypeBool:         scalar("a bool", "true", values.DecodeBool, always(values.EncodeBool), parseBool, strconv.FormatBool),
	TypeTime:         scalar("a time", "2026-01-31T15:04:05.25Z", values.DecodeTime, values.EncodeTime, parseTime, formatTime),
}

var errOtherType = errors.New("not of the column's type")

// textual is a type whose values are their own text form.
func textual(named, example string, check func([]byte) error, value func([]byte) any) *about {
	return &about{
		named: named, example: example, isText: true, check: check,
		decode: func(b []byte) (any, error) { return value(b), check(b) },
		encode: func(v any) (b []byte, err error) {
			switch of := v.(type) {
			case []byte:
				b = of
			case string:
				b = []byte(of)
			case json.RawMessage:
				b = of
			default:
				return nil, errOtherType
			}
			return b, check(b)
		},
		parse:  func(text string) ([]byte, error) { return []byte(text), check([]byte(text)) },
		format: func(b []byte) (string, error) { return string(b), check(b) },
	}
}

// scalar is a type whose values have the type T in Go.
func scalar[T any](
	named, example string, decode func([]byte) (T, error), encode func(T) ([]byte, error), parse func(string) (T, error), format func(T) string,
) *about {
	return &about{
		named: named, example: example,
		check:  func(b []byte) error { _, err := decode(b); return err },
		decode: func(b []byte) (any, error) { return decode(b) },
		encode: func(v any) ([]byte, error) {
			if of, ok := v.(T); ok {
				return encode(of)
			}
			return nil, errOtherType
		},
		parse: func(text string) ([]byte, error) {
			v, err := parse(text)
			if err != nil {
				return nil, err
			}
			return encode(v)
		},
		format: func(b []byte) (string, error) { v, err := decode(b); return format(v), err },
	}
}

func (a *about) checked(check func([]byte) error) *about {
	a.check = check
	return a
}

// always is an encoding that takes every value.
func always[T any](encode func(T) []byte) func(T) ([]byte, error) {
	return func(v T) ([]byte, error) { return encode(v), nil }
}

func checkUTF8(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("not UTF-8")
	}
	return nil
}

func checkJSON(b []byte) error {
	if !utf8.Valid(b) || !json.Valid(b) {
		return errors.New("not JSON")
	}
	return nil
}

// checkFloat64 refuses NaN, which equals nothing and so has no place in an index, and -0, which has
// a second encoding of 0.
func checkFloat64(b []byte) error {
	v, err := values.DecodeFloat64(b)
	switch {
	case err != nil:
		return err
	case v != v:
		return errors.New("NaN is not a number")
	case v == 0 && math.Signbit(v):
		return errors.New("-0 is stored as 0")
	}
	return nil
}

func parseInt64(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

func formatInt64(v int64) string { return strconv.FormatInt(v, 10) }

func parseFloat64(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if v != v {
		err = strconv.ErrSyntax // as a Float64 column refuses it
	}
	return v, err
}

func formatFloat64(v float64) string {
	if abs := math.Abs(v); abs == 0 || 1e-6 <= abs && abs < 1e21 { // as in JSON
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, strconv.ErrSyntax
	}
	return text == "true", nil
}

func parseTime(text string) (time.Time, error) { return values.ParseTime(time.RFC3339Nano, text) }

func formatTime(v time.Time) string { return v.Format(time.RFC3339Nano) }
