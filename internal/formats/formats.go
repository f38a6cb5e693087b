// Package formats writes and reads rows of tables in formats that other systems understand: JSON
// lines, Parquet and CSV. It knows neither instances nor files.
//
// Reading what was written gives the same bytes:
//
//	JSON lines  {"row": "r1", "columns": {"name": "x", "age": 7, "raw": {"base64": "/w=="}}}
//	  flat      {"id": "r1", "name": "x", "age": 7, "raw": {"base64": "/w=="}}
//	Parquet     row (binary), an optional column of its own for each declared one, and columns, a
//	            map from string to binary, for all others
//	CSV         row, and a column for each that is named or declared: text alone
//
// A value that is not of its column's type is not lost: JSON lines hold it as base64, Parquet in
// the map, and CSV refuses it. Names of columns are text: what is not UTF-8, or begins with a
// quote, is quoted as Go does.
package formats

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/text"
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

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{model.ErrInvalidArgument}, args...)...)
}

// printableName is as much of a name as an error holds.
func printableName(name string) string { return name[:min(len(name), 64)] }

// StoresKey reports whether the row key is the value of a column too: one of its name that the
// table declares.
func (t *Table) StoresKey(key string) bool {
	_, declared := t.declared(key)
	return declared && key != rowName
}

// checkKey refuses a row that does not come back from a file in which the key stands under a name
// of the caller's: key is what a reader stores there, nil if it is nothing of the column's type.
func (t *Table) checkKey(name string, key []byte, r Row) error {
	at := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.Column == name })
	switch stores := t.StoresKey(name); {
	case at >= 0 && (!stores || key == nil || !bytes.Equal(r.Cells[at].Value, key)):
		return invalid("row %s: column %q, by whose name the file has the row key, holds something else: choose another name for the key", shownKey(r.Key), printableName(name))
	case at < 0 && stores:
		return invalid("row %s: column %q, by whose name the file has the row key, has no value, and whoever reads it would store the key there: choose another name for the key",
			shownKey(r.Key), printableName(name))
	}
	return nil
}

// shownKey is how errors call a row.
func shownKey(key string) string { return text.Line(text.Shown(key)) }

// inLine names the line that cannot be read, and its row.
func inLine(number int, key string, err error) error {
	if key == "" {
		return fmt.Errorf("line %d: %w", number, err)
	}
	return fmt.Errorf("line %d, row %s: %w", number, shownKey(key), err)
}

// endReading yields an error behind which nothing can be read. Whoever passes over it must not lose
// the rest.
func endReading(yield func(Row, error) bool, line int, err error) {
	if yield(Row{}, err) && errors.Is(err, model.ErrInvalidArgument) {
		yield(Row{}, fmt.Errorf("line %d ends the reading: nothing behind it can be read", line))
	}
}
