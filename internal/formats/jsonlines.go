package formats

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gopercolator/percolator/percolator/model"
)

// A line of JSON lines is {"row": key, "columns": {name: value, …}}. What a value is, follows from
// its column:
//
//	undeclared, bytes, string   a string, if it is UTF-8
//	int64, ordered_int64        a number without fraction and exponent; digits in quotes are read too
//	float64                     a number; "NaN", "Infinity" and "-Infinity" for those that JSON lacks
//	bool                        true or false
//	time                        a string as of RFC 3339, in UTC
//	json                        the document, without the white space between its parts
//
// Anything else, a row key that is not UTF-8, a document that is not Embeddable, and one that is an
// object with base64 as its only name, is {"base64": …} of the bytes. So the form is unmistakable.

// MaxLineBytes bounds a line that is read: Bigtable sends no row above 256 MiB, of which base64
// makes a third more.
const MaxLineBytes = 384 << 20

const (
	rowName    = "row"
	cellsName  = "columns"
	base64Name = "base64"
)

// AppendJSON appends a row as a line, and returns how many values are not of the types of their
// columns. Cells of one row have different names.
func (t *Table) AppendJSON(b []byte, r Row) (line []byte, mistyped int) {
	b = append(b, `{"row":`...)
	b = appendText(b, []byte(r.Key))
	b = append(b, `,"columns":{`...)
	for i, cell := range r.Cells {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, NameText(cell.Column)), ':')
		typed := true
		if b, typed = appendValue(b, t.typeOf(cell.Column), cell.Value); !typed {
			mistyped++
		}
	}
	return append(b, "}}\n"...), mistyped
}

// appendValue appends a stored value. typed is false for one that is not of the type.
func appendValue(b []byte, of model.Type, stored []byte) (_ []byte, typed bool) {
	value, err := textOf(of, stored)
	if err != nil {
		return appendBase64(b, stored), false
	}
	switch {
	case of == model.TypeJSON:
		return appendDocument(b, value), true
	case of == model.TypeBytes, of == model.TypeString, of == model.TypeTime, unusual(string(value)):
		return appendText(b, value), true
	}
	return append(b, value...), true
}

// maxLevels is how deep objects and arrays of a document are nested at most: parsers take 10,000
// levels, with those around the document.
const maxLevels = 9_900

// Embeddable reports whether a JSON document comes back from within another one by every parser.
// encoding/json, by whose rules values are stored, takes half a surrogate pair for a character.
func Embeddable(doc []byte) bool {
	if !jsontext.Value(doc).IsValid(jsontext.AllowDuplicateNames(true)) {
		return false
	}
	if bytes.Count(doc, []byte("["))+bytes.Count(doc, []byte("{")) <= maxLevels {
		return true
	}
	d := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true))
	for d.StackDepth() <= maxLevels {
		if _, err := d.ReadToken(); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
	return false
}

// appendDocument appends a JSON document as it is, but for line breaks between its parts.
func appendDocument(b, doc []byte) []byte {
	if !Embeddable(doc) {
		return appendBase64(b, doc)
	}
	if bytes.ContainsAny(doc, "\r\n") {
		compact := jsontext.Value(doc).Clone()
		if compact.Compact(jsontext.AllowDuplicateNames(true)) != nil {
			return appendBase64(b, doc)
		}
		doc = compact
	}
	if _, ok := inBase64(doc); ok {
		return appendBase64(b, doc)
	}
	return append(b, doc...)
}

// appendText appends bytes as a string, if they are one.
func appendText(b, text []byte) []byte {
	if !utf8.Valid(text) {
		return appendBase64(b, text)
	}
	return appendQuoted(b, string(text))
}

// appendQuoted appends a string that is UTF-8.
func appendQuoted(b []byte, s string) []byte {
	b, err := jsontext.AppendQuote(b, s)
	if err != nil {
		panic(err) // only for what is not UTF-8
	}
	return b
}

func appendBase64(b, value []byte) []byte {
	b = append(b, `{"base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, value)
	return append(b, `"}`...)
}

// inBase64 is the bytes of a value {"base64": …}; ok is false for any other. bytes is nil if the
// text is not base64.
func inBase64(value jsontext.Value) (b []byte, ok bool) {
	if value.Kind() != '{' {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewReader(value))
	_, _ = d.ReadToken()
	name, err := d.ReadToken()
	if err != nil || name.Kind() != '"' || name.String() != base64Name {
		return nil, false
	}
	quoted, err := d.ReadValue()
	if err != nil {
		return nil, false
	}
	if text, err := jsontext.AppendUnquote(nil, quoted); quoted.Kind() == '"' && err == nil {
		if b, err = base64.StdEncoding.AppendDecode([]byte{}, text); err != nil {
			b = nil
		}
	}
	return b, d.PeekKind() == '}'
}

// ReadJSON reads JSON lines; key names the field of the row key if they are flat, and is "" if not.
// It passes over empty lines. Errors between rows: ErrInvalidArgument for a line that cannot be
// read, which names it and never holds a value; those of r, after which nothing follows.
func (t *Table) ReadJSON(r io.Reader, key string) iter.Seq2[Row, error] {
	parse := t.ParseJSON
	if key != "" {
		parse = func(line []byte) (Row, error) { return t.ParseFlat(line, key) }
	}
	return func(yield func(Row, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, MaxLineBytes)
		number := 0
		for lines.Scan() {
			number++
			line := lines.Bytes()
			if number == 1 {
				line = bytes.TrimPrefix(line, []byte(byteOrderMark))
			}
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			row, err := parse(line)
			if err != nil {
				row, err = Row{}, inLine(number, row.Key, err)
			}
			if !yield(row, err) {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			endReading(yield, number+1, fmt.Errorf("line %d: %w", number+1, invalid("it is longer than %d MiB", MaxLineBytes>>20)))
		case err != nil:
			endReading(yield, number+1, err)
		}
	}
}

// ParseJSON is the inverse of AppendJSON. Beside an error stands the row's key, as far as it was
// read.
func (t *Table) ParseJSON(line []byte) (row Row, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	seen := map[string]bool{}
	err = members(d, func(name string) error {
		if seen[name] {
			return invalid("%q stands there twice", name)
		}
		seen[name] = true
		switch name {
		case rowName:
			value, err := readValue(d)
			if err != nil {
				return err
			}
			var ok bool
			if row.Key, ok = keyOf(value); !ok {
				return invalid("the key of the row is neither a string nor base64")
			}
			return nil
		case cellsName:
			row.Cells, err = t.parseCells(d)
			return err
		}
		return invalid("the name %q is neither %q nor %q (--key names the row key's, and then all others are columns)", printableName(name), rowName, cellsName)
	})
	if err == nil {
		if _, end := d.ReadToken(); !errors.Is(end, io.EOF) {
			err = invalid("something follows the row")
		}
	}
	if err == nil && (!seen[rowName] || !seen[cellsName]) {
		err = invalid("a line needs %q and %q", rowName, cellsName)
	}
	if err != nil {
		return Row{Key: row.Key}, err
	}
	return row, nil
}

func (t *Table) parseCells(d *jsontext.Decoder) (cells []Cell, err error) {
	seen := map[string]bool{}
	err = members(d, func(text string) error {
		name, err := ParseName(text)
		if err != nil {
			return err
		}
		if seen[name] {
			return invalid("column %q stands there twice", printableName(name))
		}
		seen[name] = true
		value, err := readValue(d)
		if err == nil {
			cells, err = t.appendCell(cells, name, value)
		}
		return err
	})
	return cells, err
}

func (t *Table) appendCell(cells []Cell, name string, value jsontext.Value) ([]Cell, error) {
	stored, ok := parse(t.typeOf(name), value)
	if !ok {
		return nil, invalid("column %q: %s", printableName(name), t.unfitText(name, value.Kind()))
	}
	return append(cells, Cell{name, stored}), nil
}

// unfitText says what a value has to be, or what to do about it.
func (t *Table) unfitText(column string, kind jsontext.Kind) string {
	remedy := "list %s with its type under columns: of the table in the schema"
	if as := typesFor[kind]; as != "" {
		remedy += ", " + as
	}
	switch _, declared := t.declared(column); {
	case declared && t.typeOf(column) == model.TypeBytes && typesFor[kind] != "":
		return fmt.Sprintf(`want a string, or {"base64": …}: `+remedy, "it")
	case declared:
		return fmt.Sprintf(`want %s, or {"base64": …}`, formOf(t.typeOf(column)))
	case t.info.Declared != nil:
		return fmt.Sprintf("table %q does not declare it: "+remedy, t.info.Name, "it")
	}
	return fmt.Sprintf("the value is neither a string nor base64, and table %q declares no columns: "+remedy, t.info.Name, "every column")
}

// typesFor is what a column is declared as for values that are no text.
var typesFor = map[jsontext.Kind]string{
	'0': "a number as int64 or float64", 't': "true and false as bool", 'f': "true and false as bool", '{': "an object as json", '[': "an array as json",
}

// parse is the inverse of appendValue.
func parse(of model.Type, value jsontext.Value) (stored []byte, ok bool) {
	if b, ok := inBase64(value); ok {
		return b, b != nil
	}
	given := []byte(value)
	fits := false
	switch kind := value.Kind(); {
	case of == model.TypeJSON:
		return value.Clone(), true
	case kind == '"':
		given, _ = jsontext.AppendUnquote(nil, value) // which was read already
		fits = of != model.TypeBool && (of != model.TypeFloat64 || unusual(string(given)))
	case kind == '0':
		fits = of == model.TypeInt64 || of == model.TypeOrderedInt64 || of == model.TypeFloat64
	case kind == 't', kind == 'f':
		fits = of == model.TypeBool
	}
	if !fits {
		return nil, false
	}
	stored, err := ofText(of, given)
	return stored, err == nil
}

// formOf is what a value of the type is in JSON.
func formOf(t model.Type) string {
	switch t {
	case model.TypeInt64, model.TypeOrderedInt64:
		return "a number without fraction"
	case model.TypeFloat64:
		return "a number"
	case model.TypeBool:
		return "true or false"
	case model.TypeTime:
		return "a time such as \"2026-01-31T15:04:05.25Z\""
	}
	return "a string"
}

// members calls each for the names of an object. It reads the value.
func members(d *jsontext.Decoder, each func(name string) error) error {
	if d.PeekKind() != '{' {
		return invalid("byte %d is not the beginning of an object", d.InputOffset())
	}
	_, _ = d.ReadToken()
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			break
		}
		if err := each(name.String()); err != nil {
			return err
		}
	}
	if end, err := d.ReadToken(); err != nil || end.Kind() != '}' {
		return notJSON(d, err)
	}
	return nil
}

// notJSON says where a line is no JSON, or that it is cut off.
func notJSON(d *jsontext.Decoder, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("the line ends in the middle of a JSON object")
	}
	return invalid("byte %d is not JSON", d.InputOffset())
}

func readValue(d *jsontext.Decoder) (jsontext.Value, error) {
	v, err := d.ReadValue()
	if err != nil {
		return nil, notJSON(d, err)
	}
	return v, nil
}

// keyOf is the row key that a string or base64 holds.
func keyOf(value jsontext.Value) (key string, ok bool) {
	if b, ok := inBase64(value); ok && b != nil {
		return string(b), true
	}
	if value.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			return string(text), true
		}
	}
	return "", false
}
