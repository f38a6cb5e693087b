package formats

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// A flat line of JSON is {key: row key, name: value, …}, as other programs write rows; the caller
// says which field is the row key. Values are those of JSON lines, but that null is none: a
// document null is written as base64. The row key is a string, base64, or an integer, which counts
// as its decimal text.

// AppendFlat appends a row as a flat line, and returns how many values are not of the types of
// their columns. ErrInvalidArgument: the row does not come back from one.
func (t *Table) AppendFlat(b []byte, key string, r Row) (line []byte, mistyped int, err error) {
	keyText := appendText(nil, []byte(r.Key))
	stored, _ := parse(t.typeOf(key), keyText)
	if err := t.checkKey(key, stored, r); err != nil {
		return b, 0, err
	}
	b = append(appendQuoted(append(b, '{'), NameText(key)), ':')
	b = append(b, keyText...)
	for _, cell := range r.Cells {
		if cell.Column == key {
			continue
		}
		b = append(appendQuoted(append(b, ','), NameText(cell.Column)), ':')
		typed, from := true, len(b)
		if b, typed = appendValue(b, t.typeOf(cell.Column), cell.Value); !typed {
			mistyped++
		}
		if string(bytes.TrimSpace(b[from:])) == "null" {
			b = appendBase64(b[:from], cell.Value)
		}
	}
	return append(b, "}\n"...), mistyped, nil
}

// ParseFlat is the inverse of AppendFlat. Beside an error stands the row's key, as far as it was
// read.
func (t *Table) ParseFlat(line []byte, key string) (row Row, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	seen := map[string]bool{}
	err = members(d, func(text string) error {
		name, err := ParseName(text)
		if err != nil {
			return err
		}
		if seen[name] {
			return invalid("field %q stands there twice", printableName(name))
		}
		seen[name] = true
		value, err := readValue(d)
		if err != nil {
			return err
		}
		if name == key {
			if row.Key, err = flatKey(key, value); err != nil || !t.StoresKey(key) {
				return err
			}
		}
		if _, declared := t.declared(name); !declared && t.info.Declared != nil {
			return invalid("field %q: %s", printableName(name), t.unfitText(name, value.Kind()))
		}
		if value.Kind() != 'n' {
			row.Cells, err = t.appendCell(row.Cells, name, value)
		}
		return err
	})
	if err == nil {
		if _, end := d.ReadToken(); !errors.Is(end, io.EOF) {
			err = invalid("something follows the row")
		}
	}
	if err == nil && !seen[key] {
		err = invalid("field %q, which is the row key, is missing", printableName(key))
	}
	if err != nil {
		if _, nested := t.ParseJSON(line); nested == nil {
			err = invalid("it is of the form {%q: …, %q: {…}}, which is read without --key", rowName, cellsName)
		}
		return Row{Key: row.Key}, err
	}
	return row, nil
}

// flatKey is the row key that a field holds.
func flatKey(name string, value jsontext.Value) (key string, err error) {
	wrong := "is none of a string, an integer and base64"
	switch kind := value.Kind(); {
	case kind == '0' && !bytes.ContainsAny(value, ".eE"):
		return string(value), nil
	case kind == 'n':
		wrong = "is null"
	default:
		key, ok := keyOf(value)
		if key != "" {
			return key, nil
		}
		if ok {
			wrong = "is empty"
		}
	}
	return "", invalid("field %q, which is the row key, %s", printableName(name), wrong)
}
