package percolator

import (
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/percolator/model"
)

// Column encodes and decodes the values of one column, which have type T. It is a value: it may be
// copied and used concurrently. It comes from NewColumn, or from one of the functions for common
// types: Bytes, String, Int64, OrderedInt64, Float64, Bool, Time, JSON, Proto. Its methods return
// ErrInvalidArgument where the schema declares the column with another type.
type Column[T any] struct {
	Table, Name string
	encode      func(T) ([]byte, error)
	decode      func([]byte) (T, error)
	stored      model.Type // "": as the program likes
}

// Type is the type of the values of a column.
type Type = model.Type

// The types of columns, and the Column that reads and writes each. The bytes of string,
// ordered_int64, float64, bool and time sort as the values do, in indexes and in row keys.
const (
	TypeBytes        = model.TypeBytes        // any bytes: Bytes, Proto
	TypeString       = model.TypeString       // UTF-8: String
	TypeInt64        = model.TypeInt64        // 8 bytes big-endian: Int64
	TypeOrderedInt64 = model.TypeOrderedInt64 // 8 bytes big-endian, the sign bit flipped
	TypeFloat64      = model.TypeFloat64      // 8 bytes that sort as the numbers do
	TypeBool         = model.TypeBool         // one byte, 0 or 1
	// UTC nanoseconds since 1970, as ordered_int64; 1678 to 2262.
	TypeTime = model.TypeTime
	TypeJSON = model.TypeJSON // one JSON text: JSON
)

// NewColumn is a column of values that encode turns into bytes, and decode back. Both may be called
// concurrently. An error of encode becomes part of the ErrInvalidArgument of a write, one of decode
// part of the ErrCorrupt of a read: neither error may contain the value. decode may keep its
// argument; encode must not keep its result.
func NewColumn[T any](table, column string, encode func(T) ([]byte, error), decode func([]byte) (T, error)) Column[T] {
	return Column[T]{table, column, encode, decode, ""}
}

// Bytes is a column of plain bytes.
func Bytes(table, column string) Column[[]byte] {
	return NewColumn(table, column, func(v []byte) ([]byte, error) { return v, nil }, func(b []byte) ([]byte, error) { return b, nil })
}

// String is a column of strings.
func String(table, column string) Column[string] {
	return Column[string]{table, column, func(v string) ([]byte, error) { return []byte(v), nil }, func(b []byte) (string, error) { return string(b), nil }, model.TypeString}
}

// Int64 is a column of integers, stored as 8 bytes big-endian, the encoding of Bigtable's own
// counters. In an index negative numbers come after all others; OrderedInt64 has them in order.
func Int64(table, column string) Column[int64] {
	return Column[int64]{table, column, infallible(values.EncodeInt64), values.DecodeInt64, model.TypeInt64}
}

// OrderedInt64 is a column of integers that sort in an index: 8 bytes big-endian with the sign bit
// flipped.
func OrderedInt64(table, column string) Column[int64] {
	return Column[int64]{table, column, infallible(values.EncodeOrderedInt64), values.DecodeOrderedInt64, model.TypeOrderedInt64}
}

// Float64 is a column of numbers that sort in an index: the 8 bytes of IEEE 754, big-endian, with
// all bits of a negative number flipped and the sign bit of the others. -0 is stored as 0, and NaN
// is refused with ErrInvalidArgument.
func Float64(table, column string) Column[float64] {
	return Column[float64]{table, column, encodeFloat64, values.DecodeFloat64, model.TypeFloat64}
}

func encodeFloat64(v float64) ([]byte, error) {
	if v != v {
		return nil, errors.New("it is not a number")
	}
	return values.EncodeFloat64(v), nil
}

// Bool is a column of one byte, 0 or 1.
func Bool(table, column string) Column[bool] {
	return Column[bool]{table, column, infallible(values.EncodeBool), values.DecodeBool, model.TypeBool}
}

// Time is a column of times that sort in an index: the nanoseconds since 1970 as an OrderedInt64.
// The years are 1678 to 2262; other times, such as the zero Time, are refused with
// ErrInvalidArgument. What is read is in UTC.
func Time(table, column string) Column[time.Time] {
	return Column[time.Time]{table, column, values.EncodeTime, values.DecodeTime, model.TypeTime}
}

// infallible is an encoding that takes every value.
func infallible[T any](encode func(T) []byte) func(T) ([]byte, error) {
	return func(v T) ([]byte, error) { return encode(v), nil }
}

// JSON is a column of values encoded by encoding/json.
func JSON[T any](table, column string) Column[T] {
	return Column[T]{table, column, func(v T) ([]byte, error) { return encodeJSON(v) }, func(b []byte) (T, error) {
		var v T
		return v, decodeJSON(b, &v)
	}, model.TypeJSON}
}

// The messages of encoding/json may quote the value.

func encodeJSON(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, errors.New("it has no JSON")
	}
	return b, nil
}

func decodeJSON(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return errors.New("not the JSON of the column's type")
	}
	return nil
}

// Proto is a column of protocol buffers; T is a pointer to a generated message.
func Proto[T proto.Message](table, column string) Column[T] {
	return NewColumn(table, column, func(v T) ([]byte, error) { return encodeProto(v) }, func(b []byte) (T, error) {
		var zero T
		v := reflect.New(reflect.TypeOf(zero).Elem()).Interface().(T)
		if err := decodeProto(b, v); err != nil {
			return zero, err
		}
		return v, nil
	})
}

func encodeProto(v proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(v)
	if err != nil {
		return nil, errors.New("the message is not complete, or not UTF-8")
	}
	return b, nil
}

func decodeProto(b []byte, v proto.Message) error {
	if err := proto.Unmarshal(b, v); err != nil {
		return errors.New("not a message of the column's type")
	}
	return nil
}
