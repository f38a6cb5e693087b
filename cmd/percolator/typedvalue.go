package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// Values are read and written as their columns are declared (percolator.Type). All commands parse
// them by givenValue.of and show them by typedText and typedJSON.

// columnTypes tells the type of a column; commands get it from admin.Admin.ColumnType.
type columnTypes func(table, column string) percolator.Type

func typesOf(c *percolator.Client) columnTypes { return admin.New(c).ColumnType }

// valueFlags say in what form a value is given. Without them it is the text form of its type.
type valueFlags struct{ hex, raw bool }

func (f *valueFlags) define(flags *pflag.FlagSet) {
	flags.BoolVar(&f.hex, "hex", false, "the value is in hexadecimal digits")
	flags.BoolVar(&f.raw, "raw", false, "the value is bytes as they are, whatever the type of the column")
}

// givenValue is a value of which the column's type is not known yet.
type givenValue struct {
	bytes  []byte
	isText bool // bytes are its text form
}

func (f *valueFlags) take(text []byte) (v givenValue, err error) {
	switch {
	case f.hex && f.raw:
		return v, usagef("--hex and --raw exclude each other")
	case f.hex:
		v.bytes, err = fromHex(string(text))
		return v, err
	}
	return givenValue{text, !f.raw}, nil
}

// of encodes the value for a column. Its errors do not show it.
func (v givenValue) of(types columnTypes, c percolator.Cell) ([]byte, error) {
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
		return nil, usagef("%s is declared %s: %w", place, t, err)
	}
	return value, nil
}

// typedText is a value as a person reads it. What is not of the type is in quotes, with what is
// wrong with it.
func typedText(t percolator.Type, value []byte) string {
	text, err := t.Format(value)
	if err != nil {
		return fmt.Sprintf("%s (%v)", strconv.Quote(string(value)), err)
	}
	return shownValue([]byte(text))
}

// partText is typedText of the beginning of a value, which has so many bytes in all. Text can be
// cut, and nothing else.
func partText(t percolator.Type, begins []byte, size int64) string {
	if int64(len(begins)) < size && (t == percolator.TypeString || t == percolator.TypeJSON) {
		t = percolator.TypeBytes
	}
	return typedText(t, begins)
}

// valueJSON is a value in the output for programs, in one of two forms; without a value neither.
type valueJSON struct {
	Value  any     `json:"value,omitempty"`
	Base64 *[]byte `json:"base64,omitempty"`
}

// typedJSON is a number for int64, ordered_int64 and float64, true or false, the JSON of json, and
// a string otherwise. Bytes that are not UTF-8, and what is not of the type, are Base64.
func typedJSON(t percolator.Type, value []byte) valueJSON {
	text, err := t.Format(value)
	switch {
	case err != nil || !utf8.ValidString(text):
		return valueJSON{Base64: &value}
	case t != percolator.TypeBytes && t != percolator.TypeString && t != percolator.TypeTime && json.Valid([]byte(text)):
		// NaN is no JSON.
		return valueJSON{Value: json.RawMessage(text)}
	}
	return valueJSON{Value: text}
}

// partJSON is typedJSON of the beginning of a value, as partText has it; of nil there is no value.
func partJSON(t percolator.Type, begins []byte, size int64) valueJSON {
	if begins == nil {
		return valueJSON{}
	}
	if int64(len(begins)) < size {
		t = percolator.TypeBytes
	}
	return typedJSON(t, begins)
}
