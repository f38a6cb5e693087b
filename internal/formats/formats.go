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
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/catalog"
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
