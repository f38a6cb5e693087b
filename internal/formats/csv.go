package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gopercolator/percolator/percolator/model"
)

// A file of CSV has a header with the names of its columns, of which one is the row key. An empty
// field is no value, and one in quotes the empty one. All else is the text of a value (textOf), in
// UTF-8. What CSV does not hold is refused: a value of no column of the file, one that is not of
// its column's type, and bytes that are no text.

// maxCSVColumns bounds the header of a file that is read.
const maxCSVColumns = 10_000

// CSV is what files of CSV are written as. It is immutable.
type CSV struct {
	table *Table
	names []string       // the first is the row key's
	at    map[string]int // of the columns behind it
}

// NewCSV has a column for each that is named; without names for each that the table declares by its
// name. key names that of the row keys. ErrInvalidArgument: there is none.
func (t *Table) NewCSV(columns []string, key string) (*CSV, error) {
	if len(columns) == 0 {
		for _, c := range t.info.Declared.Columns() {
			if !strings.HasSuffix(c.Name, "*") {
				columns = append(columns, c.Name)
			}
		}
	}
	if len(columns) == 0 {
		return nil, invalid("CSV has a column for each that the schema declares by its name, and table %q declares none: name the columns, or declare them under columns: of the table in the schema", t.info.Name)
	}
	c := &CSV{t, []string{key}, map[string]int{}}
	for _, name := range columns {
		if !slices.Contains(c.names, name) {
			c.at[name] = len(c.names)
			c.names = append(c.names, name)
		}
	}
	return c, nil
}

// Append appends a row, to the header if b is empty. ErrInvalidArgument names a row that CSV does
// not hold.
func (c *CSV) Append(b []byte, r Row) ([]byte, error) {
	stored, err := ofText(c.table.typeOf(c.names[0]), []byte(r.Key))
	if err != nil {
		stored = nil
	}
	if err := c.table.checkKey(c.names[0], stored, r); err != nil {
		return b, err
	}
	if !utf8.ValidString(r.Key) {
		return b, invalid("row %s: its key is not UTF-8: Parquet and JSON lines hold any bytes", shownKey(r.Key))
	}
	if len(b) == 0 {
		for i, name := range c.names {
			b = appendField(b, i, []byte(NameText(name)))
		}
		b = append(b, '\n')
	}
	fields := make([][]byte, len(c.names)) // nil: no value
	fields[0] = []byte(r.Key)
	for _, cell := range r.Cells {
		if cell.Column == c.names[0] {
			continue
		}
		at, ok := c.at[cell.Column]
		if !ok {
			return b, invalid("row %s: column %q is none that the schema declares by its name, and the file has no other: name the columns to write, or write Parquet or JSON lines",
				shownKey(r.Key), printableName(cell.Column))
		}
		of := c.table.typeOf(cell.Column)
		value, err := textOf(of, cell.Value)
		if err == nil && !utf8.Valid(value) {
			err = errors.New("not UTF-8")
		}
		if err != nil {
			return b, invalid("row %s: column %q: the value is no %s that CSV can hold (%w): Parquet and JSON lines hold any bytes", shownKey(r.Key), printableName(cell.Column), of, err)
		}
		if fields[at] = value; value == nil {
			fields[at] = []byte{}
		}
	}
	for i, of := range fields {
		b = appendField(b, i, of)
	}
	return append(b, '\n'), nil
}

// appendField appends a field, of which nil is without a value. What programs trim, or take for
// something else, is in quotes as well.
func appendField(b []byte, i int, of []byte) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	switch {
	case of == nil:
		return b
	case len(of) > 0 && !bytes.ContainsAny(of, "\",\r\n") && len(bytes.TrimSpace(of)) == len(of) && !bytes.HasPrefix(of, []byte(byteOrderMark)):
		return append(b, of...)
	}
	b = append(b, '"')
	b = append(b, bytes.ReplaceAll(of, []byte(`"`), []byte(`""`))...)
	return append(b, '"')
}

// ReadCSV reads a file with a header; key names the column of the row keys, "" for row.
// ErrInvalidArgument: the columns do not fit. Errors between rows: ErrInvalidArgument for one that
// cannot be read, which names its line and never holds a value; those of r, after which nothing
// follows.
func (t *Table) ReadCSV(r io.Reader, key string) (iter.Seq2[Row, error], error) {
	if key == "" {
		key = rowName
	}
	in := newRecords(r)
	header, err := t.csvHeader(in, key)
	if err != nil {
		return nil, fmt.Errorf("a CSV file whose columns do not fit: %w", err)
	}
	return func(yield func(Row, error) bool) {
		for {
			switch err := in.next(len(header)); {
			case err == io.EOF: //nolint:errorlint // as records returns it
				return
			case err != nil:
				endReading(yield, in.line, err)
				return
			}
			row, err := in.row(header)
			if err != nil {
				row, err = Row{}, inLine(in.line, row.Key, err)
			}
			if !yield(row, err) {
				return
			}
		}
	}, nil
}

// csvColumn is a column of a file that is read.
type csvColumn struct {
	name        string
	of          model.Type
	key, stores bool
}

// csvHeader reads the header of a file, and refuses columns that do not fit.
func (t *Table) csvHeader(in *records, key string) (header []csvColumn, err error) {
	switch err := in.next(maxCSVColumns); {
	case err == io.EOF: //nolint:errorlint // as records returns it
		return nil, invalid("it is empty, and has no header")
	case err != nil:
		return nil, err
	case in.count > maxCSVColumns:
		return nil, invalid("it has %d columns, and the limit is %d", in.count, maxCSVColumns)
	}
	var failed, undeclared []string
	seen := map[string]bool{}
	for i, f := range in.fields {
		text := string(in.text[f.from:f.to])
		name, err := ParseName(text)
		_, declared := t.declared(name)
		switch {
		case !utf8.ValidString(text):
			failed = append(failed, fmt.Sprintf("the name of column %d is not UTF-8", i+1))
		case text == "":
			failed = append(failed, fmt.Sprintf("column %d has no name (pandas writes an index so, unless index=False or index_label is given)", i+1))
		case err != nil:
			failed = append(failed, fmt.Sprintf("column %d: %v", i+1, err))
		case seen[name]:
			failed = append(failed, fmt.Sprintf("column %q is there twice", printableName(name)))
		case name != key && !declared && t.info.Declared != nil:
			undeclared = append(undeclared, strconv.Quote(printableName(name)))
		}
		seen[name] = true
		header = append(header, csvColumn{name, t.typeOf(name), name == key, name != key || t.StoresKey(key)})
	}
	if !seen[key] {
		failed = append(failed, fmt.Sprintf("column %q of the row key is missing (--key names another column)", printableName(key)))
	}
	if len(undeclared) > 0 {
		failed = append(failed, t.undeclaredText(undeclared))
	}
	if len(failed) > 0 {
		return nil, invalid("%s", strings.Join(failed[:min(len(failed), namedColumns)], "; "))
	}
	return header, nil
}

// row is the record that was read last.
func (r *records) row(header []csvColumn) (row Row, err error) {
	if r.count != len(header) {
		return row, invalid("it has %d fields, and the header %d", r.count, len(header))
	}
	for i, c := range header {
		f := r.fields[i]
		text := r.text[f.from:f.to]
		switch {
		case c.key && len(text) == 0:
			return row, invalid("column %q, which is the row key, is empty", printableName(c.name))
		case !utf8.Valid(text):
			return row, invalid("column %q is not UTF-8", printableName(c.name))
		case c.key:
			row.Key = string(text)
		}
		if !c.stores || len(text) == 0 && !f.quoted {
			continue
		}
		stored, err := ofText(c.of, text)
		if err != nil {
			return row, invalid("column %q: %w", printableName(c.name), err)
		}
		row.Cells = append(row.Cells, Cell{c.name, stored})
	}
	return row, nil
}
