package formats

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gopercolator/percolator/percolator/model"
)

// A line of JSON lines is {"row": key, "columns": {name: value, …}}. What a value is, follows from
// its column:
//
//	undeclared, bytes, string   a string, if it is UTF-8
//	int64, ordered_int64        a number without fraction and exponent
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
		v, err := t.typeOf(cell.Column).Decode(cell.Value)
		if err != nil {
			mistyped++
			b = appendBase64(b, cell.Value)
			continue
		}
		b = appendValue(b, v)
	}
	return append(b, "}}\n"...), mistyped
}

func appendValue(b []byte, v any) []byte {
	switch of := v.(type) {
	case string:
		return appendQuoted(b, of)
	case int64:
		return strconv.AppendInt(b, of, 10)
	case float64:
		if name, ok := unusual(of); ok {
			return appendQuoted(b, name)
		}
		return strconv.AppendFloat(b, of, 'g', -1, 64)
	case bool:
		return strconv.AppendBool(b, of)
	case time.Time:
		return appendQuoted(b, of.UTC().Format(time.RFC3339Nano))
	case json.RawMessage:
		return appendDocument(b, of)
	case []byte:
		return appendText(b, of)
	}
	panic(fmt.Sprintf("a value of type %T", v)) // decode returns others
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

// JSONReader reads JSON lines. It is not safe for concurrent use.
type JSONReader struct {
	table *Table
	lines *bufio.Scanner
	line  int
}

// NewJSONReader reads from r, whose errors it returns unchanged.
func (t *Table) NewJSONReader(r io.Reader) *JSONReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLineBytes)
	return &JSONReader{table: t, lines: lines}
}

// Line is the number of the line that Read has read last, from 1.
func (r *JSONReader) Line() int { return r.line }

// Read returns the next row. It passes over empty lines. Errors: io.EOF; ErrInvalidArgument, which
// names the line and never holds a value.
func (r *JSONReader) Read() (Row, error) {
	for r.lines.Scan() {
		r.line++
		line := r.lines.Bytes()
		if r.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // which programs on Windows write
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		row, err := r.table.ParseJSON(line)
		if err != nil {
			return Row{}, fmt.Errorf("line %d: %w", r.line, err)
		}
		return row, nil
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Row{}, fmt.Errorf("line %d: %w: it is longer than %d MiB", r.line+1, model.ErrInvalidArgument, MaxLineBytes>>20)
	case err != nil:
		return Row{}, err
	}
	return Row{}, io.EOF
}

// ParseJSON is the inverse of AppendJSON.
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
			if err == nil {
				row.Key, err = textOf(value, "the key of the row")
			}
			return err
		case cellsName:
			row.Cells, err = t.parseCells(d)
			return err
		}
		return invalid("the name %q is neither %q nor %q", printableName(name), rowName, cellsName)
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
		return Row{}, err
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
		if err != nil {
			return err
		}
		stored, ok := parse(t.typeOf(name), value)
		if !ok {
			return invalid("column %q: %s", printableName(name), t.unfitText(name))
		}
		cells = append(cells, Cell{name, stored})
		return nil
	})
	return cells, err
}

// unfitText says what a value has to be.
func (t *Table) unfitText(column string) string {
	const remedy = "list %s with its type under columns: of the table in the schema"
	switch _, declared := t.declared(column); {
	case declared:
		return fmt.Sprintf(`want %s, or {"base64": …}`, formOf(t.typeOf(column)))
	case t.info.Declared != nil:
		return fmt.Sprintf("table %q does not declare it: "+remedy, t.info.Name, "it")
	}
	return fmt.Sprintf("the value is neither a string nor base64, and table %q declares no columns: "+remedy, t.info.Name, "every column")
}

// parse is the inverse of appendValue.
func parse(t model.Type, value jsontext.Value) (stored []byte, ok bool) {
	if b, ok := inBase64(value); ok {
		return b, b != nil
	}
	if t == model.TypeJSON {
		return value.Clone(), true
	}
	v, ok := goValue(t, value)
	if !ok {
		return nil, false
	}
	stored, err := t.Encode(v)
	return stored, err == nil
}

// formOf is what a value of the type is in JSON.
func formOf(t model.Type) string {
	switch t {
	case model.TypeInt64, model.TypeOrderedInt64:
		return "a number without fraction and quotes"
	case model.TypeFloat64:
		return "a number"
	case model.TypeBool:
		return "true or false"
	case model.TypeTime:
		return "a time such as \"2026-01-31T15:04:05.25Z\""
	}
	return "a string"
}

// goValue is what a JSON value means in a column of the type.
func goValue(t model.Type, value jsontext.Value) (any, bool) {
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return nil, false
		}
		switch t {
		case model.TypeBytes, model.TypeString:
			return text, true
		case model.TypeTime:
			at, err := time.Parse(time.RFC3339Nano, string(text))
			return at, err == nil
		case model.TypeFloat64:
			f, ok := usual[string(text)]
			return f, ok
		}
	case '0':
		if t == model.TypeFloat64 {
			f, err := strconv.ParseFloat(string(value), 64)
			return f, err == nil
		}
		n, err := strconv.ParseInt(string(value), 10, 64)
		return n, err == nil
	case 't', 'f':
		return value.Kind() == 't', true
	}
	return nil, false
}

var usual = map[string]float64{notANumber: math.NaN(), infinity: math.Inf(1), negInfinity: math.Inf(-1)}

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

func textOf(value jsontext.Value, what string) (string, error) {
	if b, ok := inBase64(value); ok && b != nil {
		return string(b), nil
	}
	if value.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			return string(text), nil
		}
	}
	return "", invalid("%s is neither a string nor base64", what)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{model.ErrInvalidArgument}, args...)...)
}

// printableName is as much of a name as an error holds.
func printableName(name string) string { return name[:min(len(name), 64)] }
