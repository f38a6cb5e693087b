// Package formats writes and reads rows of tables in formats that other systems understand: JSON
// lines and Parquet. It knows neither instances nor files.
//
// Both formats hold the same rows, and reading what was written gives the same bytes:
//
//	JSON lines  {"row": "r1", "columns": {"name": "x", "age": 7, "raw": {"base64": "/w=="}}}
//	Parquet     row (binary), an optional column of its own for each declared one, and columns, a
//	            map from string to binary, for all others
//
// A declared column has a kind. A value that is not of its column's kind is not lost: JSON lines
// hold it as base64, Parquet in the map. Names of columns are text: what is not UTF-8, or begins
// with a quote, is quoted as Go does.
package formats

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/model"
)

// Kind is what a column's values are. The zero value is Bytes.
type Kind uint8

// The kinds, with what [Column.Decode] returns.
const (
	Bytes     Kind = iota // []byte
	String                // string, in UTF-8
	Int64                 // int64
	Float64               // float64
	Bool                  // bool
	Timestamp             // time.Time, of a year that has four digits
	JSON                  // []byte, a JSON document
)

// Column is a declared column. Decode turns a stored value into that of the kind, and fails for one
// that is none; Encode is its inverse. Bytes and String need neither.
type Column struct {
	Name   string
	Kind   Kind
	Decode func(stored []byte) (any, error)
	Encode func(value any) ([]byte, error)
}

// Cell is a value of a row as it is stored.
type Cell struct {
	Column string
	Value  []byte
}

// Row is a row of a table.
type Row struct {
	Key   string
	Cells []Cell
}

// Table is the declared columns of a table. It is immutable.
type Table struct {
	columns []Column
	at      map[string]int
}

// NewTable prepares columns, whose names differ.
func NewTable(columns ...Column) *Table {
	t := &Table{columns: columns, at: make(map[string]int, len(columns))}
	for i, c := range columns {
		t.at[c.Name] = i
	}
	return t
}

// column is the declared column of that name; of kind Bytes if there is none.
func (t *Table) column(name string) Column {
	if i, ok := t.at[name]; ok {
		return t.columns[i]
	}
	return Column{Name: name}
}

// value is that of a stored one; ok is false if it is not of the column's kind.
func (c Column) value(stored []byte) (v any, ok bool) {
	switch c.Kind {
	case Bytes:
		return stored, true
	case String:
		return string(stored), utf8.Valid(stored)
	}
	v, err := c.Decode(stored)
	if err != nil {
		return nil, false
	}
	switch of := v.(type) {
	case time.Time:
		year := of.UTC().Year()
		return v, year >= 1 && year <= 9999
	case []byte:
		return v, utf8.Valid(of)
	}
	return v, true
}

// stored is the inverse of value. Its error holds nothing of the value.
func (c Column) stored(v any) ([]byte, error) {
	switch of := v.(type) {
	case []byte:
		if c.Kind == Bytes || c.Kind == String {
			return of, nil
		}
	case string:
		if c.Kind == Bytes || c.Kind == String {
			return []byte(of), nil
		}
	}
	if c.Kind == Bytes || c.Kind == String || c.Encode == nil {
		return nil, fmt.Errorf("column %q: %w: the value is not of the column's type", c.Name, model.ErrInvalidArgument)
	}
	b, err := c.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("column %q: %w: the value is not of the column's type", c.Name, model.ErrInvalidArgument)
	}
	return b, nil
}

// NameText is the name of a column as text.
func NameText(name string) string {
	if !utf8.ValidString(name) || strings.HasPrefix(name, `"`) {
		return strconv.QuoteToASCII(name)
	}
	return name
}

// ParseName is the inverse of NameText.
func ParseName(text string) (string, error) {
	if !strings.HasPrefix(text, `"`) {
		return text, nil
	}
	name, err := strconv.Unquote(text)
	if err != nil {
		return "", fmt.Errorf("%w: the name of a column begins with a quote and is not quoted", model.ErrInvalidArgument)
	}
	return name, nil
}

// Names of numbers that JSON does not have.
const (
	notANumber  = "NaN"
	infinity    = "Infinity"
	negInfinity = "-Infinity"
)

func unusual(f float64) (string, bool) {
	switch {
	case math.IsNaN(f):
		return notANumber, true
	case math.IsInf(f, 1):
		return infinity, true
	case math.IsInf(f, -1):
		return negInfinity, true
	}
	return "", false
}
