// Package formats writes and reads rows of tables in formats that other systems understand: JSON
// lines and Parquet. It knows neither instances nor files.
//
// Both formats hold the same rows, and reading what was written gives the same bytes:
//
//	JSON lines  {"row": "r1", "columns": {"name": "x", "age": 7, "raw": {"base64": "/w=="}}}
//	Parquet     row (binary), an optional column of its own for each declared one, and columns, a
//	            map from string to binary, for all others
//
// A value that is not of its column's type is not lost: JSON lines hold it as base64, Parquet in
// the map. Names of columns are text: what is not UTF-8, or begins with a quote, is quoted as Go
// does.
package formats

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/values"

	"github.com/gopercolator/percolator/percolator/model"
)

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

// Table is a table whose rows are written or read. It is immutable.
type Table struct{ info *catalog.TableInfo }

// NewTable takes the declared columns of a table.
func NewTable(info *catalog.TableInfo) *Table { return &Table{info} }

// TableOf is NewTable of a table of a schema. ErrSchemaMismatch: there is no such table.
func TableOf(s *model.Schema, name string) (*Table, error) {
	catalog := catalog.New(s)
	info, ok := catalog.UserTable(name)
	if !ok {
		return nil, catalog.UnknownTable(name)
	}
	return NewTable(info), nil
}

// typeOf is the type of a column: bytes, if it is not declared.
func (t *Table) typeOf(column string) model.Type {
	if c, ok := t.info.Declared.Of(column); ok && c.Type != "" {
		return c.Type
	}
	return model.TypeBytes
}

// decode is a stored value as Go has it: []byte, string, int64, float64, bool, time.Time, or
// json.RawMessage. ok is false if it is not of the type.
func decode(t model.Type, stored []byte) (v any, ok bool) {
	var err error
	switch t {
	case model.TypeString:
		return string(stored), utf8.Valid(stored)
	case model.TypeInt64:
		v, err = values.DecodeInt64(stored)
	case model.TypeOrderedInt64:
		v, err = values.DecodeOrderedInt64(stored)
	case model.TypeFloat64:
		v, err = values.DecodeFloat64(stored)
	case model.TypeBool:
		v, err = values.DecodeBool(stored)
	case model.TypeTime:
		v, err = values.DecodeTime(stored)
	case model.TypeJSON:
		return json.RawMessage(stored), t.Check(stored) == nil
	default:
		return stored, true
	}
	return v, err == nil
}

// encode is the inverse of decode. Its error holds nothing of the value.
func encode(t model.Type, v any) ([]byte, error) {
	switch of := v.(type) {
	case int64:
		switch t {
		case model.TypeInt64:
			return values.EncodeInt64(of), nil
		case model.TypeOrderedInt64:
			return values.EncodeOrderedInt64(of), nil
		}
	case float64:
		if t == model.TypeFloat64 {
			return values.EncodeFloat64(of), nil
		}
	case bool:
		if t == model.TypeBool {
			return values.EncodeBool(of), nil
		}
	case time.Time:
		if t == model.TypeTime {
			return values.EncodeTime(of)
		}
	case []byte:
		if t == model.TypeBytes || t == model.TypeString || t == model.TypeJSON {
			return of, t.Check(of)
		}
	}
	return nil, errors.New("not of the column's type")
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
