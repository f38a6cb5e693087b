package cli

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/percolator"
)

// Values are read and written as their columns are declared (percolator.Type). All commands parse
// them by GivenValue.of and show them by TypedText and typedJSON.

// Types tells the type of a column.
type Types func(table, column string) percolator.Type

// TypesOf are the types of the schema that a client has.
func TypesOf(c *percolator.Client) Types {
	return func(table, column string) percolator.Type {
		return c.Engine().Meta.Catalog.Load().TypeOf(table, column)
	}
}

// ValueFlags say in what form a value is given. Without them it is the text form of its type.
type ValueFlags struct{ hex, raw bool }

// Define adds the flags.
func (f *ValueFlags) Define(flags *pflag.FlagSet) {
	flags.BoolVar(&f.hex, "hex", false, "the value is in hexadecimal digits")
	flags.BoolVar(&f.raw, "raw", false, "the value is bytes as they are, whatever the type of the column")
}

// GivenValue is a value of which the column's type is not known yet.
type GivenValue struct {
	bytes  []byte
	isText bool // bytes are its text form
}

// Take is a value in the form that the flags say.
func (f *ValueFlags) Take(text []byte) (v GivenValue, err error) {
	switch {
	case f.hex && f.raw:
		return v, Usagef("--hex and --raw exclude each other")
	case f.hex:
		// Files end with a line break. The error does not show the value.
		if v.bytes, err = hex.DecodeString(strings.TrimRight(string(text), "\r\n")); err != nil {
			err = Usagef("the value is not an even number of hexadecimal digits")
		}
		return v, err
	}
	return GivenValue{text, !f.raw}, nil
}

// AsText is a value in the text form of its type.
func AsText(text string) GivenValue { return GivenValue{[]byte(text), true} }

// Encode encodes the value for a column. Its errors do not show it.
func (v GivenValue) Encode(types Types, c percolator.Cell) ([]byte, error) {
	t := types(c.Table, c.Column)
	if !v.isText || t == percolator.TypeBytes {
		return v.bytes, nil
	}
	text := string(v.bytes)
	if t != percolator.TypeString {
		text = strings.TrimRight(text, "\r\n") // which files have
	}
	value, err := t.Parse(text)
	if err != nil {
		place := c.String()
		if c.Row == "" { // of an index
			place = c.Table + "/" + strconv.Quote(c.Column)
		}
		return nil, Usagef("%s is declared %s: %w", place, t, err)
	}
	return value, nil
}

// TypedText is a value as a person reads it. What is not of the type is in quotes, with what is
// wrong with it.
func TypedText(t percolator.Type, value []byte) string {
	text, err := t.Format(value)
	if err != nil {
		return fmt.Sprintf("%s (%v)", strconv.Quote(string(value)), err)
	}
	return shownValue([]byte(text))
}

// PartText is TypedText of the beginning of a value, which has so many bytes in all. Text can be
// cut, and nothing else.
func PartText(t percolator.Type, begins []byte, size int64) string {
	if int64(len(begins)) < size && t.IsText() {
		t = percolator.TypeBytes
	}
	return TypedText(t, begins)
}

// ValueJSON is a value in the output for programs, in one of two forms; without a value neither.
type ValueJSON struct {
	Value  any     `json:"value,omitempty"`
	Base64 *[]byte `json:"base64,omitempty"`
}

// typedJSON is a number for int64, ordered_int64 and float64, true or false, the JSON of json, and
// a string otherwise. Bytes that are not UTF-8, what is not of the type, and documents that other
// parsers refuse are Base64.
func typedJSON(t percolator.Type, value []byte) ValueJSON {
	text, err := t.Format(value)
	switch {
	case err != nil || !utf8.ValidString(text):
		return ValueJSON{Base64: &value}
	case t == percolator.TypeJSON && !formats.Embeddable([]byte(text)):
		return ValueJSON{Base64: &value}
	case t != percolator.TypeBytes && t != percolator.TypeString && t != percolator.TypeTime && json.Valid([]byte(text)):
		// NaN is no JSON.
		return ValueJSON{Value: json.RawMessage(text)}
	}
	return ValueJSON{Value: text}
}

// PartJSON is typedJSON of the beginning of a value, as PartText has it; of nil there is no value.
func PartJSON(t percolator.Type, begins []byte, size int64) ValueJSON {
	if begins == nil {
		return ValueJSON{}
	}
	if int64(len(begins)) < size {
		t = percolator.TypeBytes
	}
	return typedJSON(t, begins)
}
