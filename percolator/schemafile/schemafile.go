// Package schemafile reads and writes schema files: those that percolator schema apply takes.
// docs/SCHEMA.md describes them.
package schemafile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
)

// A schema file is YAML, of which JSON is a part. It says what percolator.Schema says; terraform/
// reads its tables, indexes and splits as well. Names of columns and split keys that are no UTF-8,
// or begin with a quote, are in Go's quotes, as commands show them.

type schemaFile struct {
	Name   string      `json:"name,omitempty" yaml:"name,omitempty"`
	Tables []tableFile `json:"tables" yaml:"tables"`
	Timing *timingFile `json:"timing,omitempty" yaml:"timing,omitempty"`

	DisableJournal bool `json:"disableJournal,omitempty" yaml:"disableJournal,omitempty"`
}

type tableFile struct {
	Name     string      `json:"name" yaml:"name"`
	Schema   string      `json:"schema,omitempty" yaml:"schema,omitempty"` // whose it is, where several are shown
	Observed []string    `json:"observed,omitempty" yaml:"observed,omitempty,flow"`
	Weak     []string    `json:"weak,omitempty" yaml:"weak,omitempty,flow"`
	Queue    *queueFile  `json:"queue,omitempty" yaml:"queue,omitempty,flow"` // more of weak
	Indexes  []indexFile `json:"indexes,omitempty" yaml:"indexes,omitempty"`
	Splits   []string    `json:"splits,omitempty" yaml:"splits,omitempty,flow"`

	Columns []columnFile `json:"columns,omitempty" yaml:"columns,omitempty"`
	TTL     string       `json:"ttl,omitempty" yaml:"ttl,omitempty"`

	NotifyExpired bool `json:"notifyExpired,omitempty" yaml:"notifyExpired,omitempty"`
}

// queueFile is the weak columns of a queue: COLUMN-000, COLUMN-001 and so on.
type queueFile struct {
	Column string `json:"column" yaml:"column"`
	Parts  int    `json:"parts" yaml:"parts"`
}

type columnFile struct {
	Name string          `json:"name" yaml:"name"`
	Type percolator.Type `json:"type,omitempty" yaml:"type,omitempty"`
	TTL  string          `json:"ttl,omitempty" yaml:"ttl,omitempty"`

	NotifyExpired bool `json:"notifyExpired,omitempty" yaml:"notifyExpired,omitempty"`
}

type indexFile struct {
	Name   string `json:"name" yaml:"name"`
	Column string `json:"column" yaml:"column"`
	Unique bool   `json:"unique,omitempty" yaml:"unique,omitempty"`
}

type timingFile struct {
	RequestLifetime string `json:"requestLifetime,omitempty" yaml:"requestLifetime,omitempty"`
	MetaMaxAge      string `json:"metaMaxAge,omitempty" yaml:"metaMaxAge,omitempty"`
}

// Parse reads a schema file, and validates the schema. Whatever Parse does not know is an error
// that names the line or the field: a misspelt "observed" would be notifications that never come.
func Parse(text []byte) (*percolator.Schema, error) {
	if err := oneDocument(text); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(asJSON, &tree); err != nil {
		return nil, err
	}
	if err := knownFields("", tree, reflect.TypeFor[schemaFile]()); err != nil {
		return nil, err
	}
	var file schemaFile
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(asJSON, &file); {
	case errors.As(err, &wrong):
		return nil, fmt.Errorf("%s is a %s, want a %s", cmp.Or(wrong.Field, "the file"), wrong.Value, kindName(wrong.Type))
	case err != nil:
		return nil, err
	case len(file.Tables) == 0:
		return nil, errors.New("tables: there are none")
	}
	s, err := file.schema()
	if err == nil {
		err = percolator.ValidateSchema(s)
	}
	return s, err
}

// oneDocument refuses a second document, which the decoder would not look at.
func oneDocument(text []byte) error {
	started, ended := false, false
	line := 0
	for l := range bytes.Lines(text) {
		line++
		l = bytes.TrimRight(l, " \t\r\n")
		mark, rest, _ := bytes.Cut(bytes.ReplaceAll(l, []byte("\t"), []byte(" ")), []byte(" "))
		switch separates := bytes.Equal(mark, []byte("---")); {
		case started && separates, ended && len(l) > 0 && l[0] != '#':
			return fmt.Errorf("line %d: a second document", line)
		case started && bytes.Equal(mark, []byte("...")):
			ended = true
		case separates:
			rest = bytes.TrimSpace(rest)
			started = len(rest) > 0 && rest[0] != '#'
		case len(l) > 0 && l[0] != '#':
			started = true
		}
	}
	return nil
}

// knownFields refuses fields that a struct does not have, and what YAML does not read as a text
// where one is wanted. Go's decoder would take fields in any case of letters, and other readers of
// the file would not.
func knownFields(path string, v any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return nil // the decoder says so
		}
		for i, e := range v {
			if err := knownFields(fmt.Sprintf("%s[%d]", path, i), e, t.Elem()); err != nil {
				return err
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil
		}
		have := fieldsOf(t)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			field, ok := have[name]
			if !ok {
				return fmt.Errorf("%s: unknown field; there are %s", at, strings.Join(slices.Sorted(maps.Keys(have)), ", "))
			}
			if err := knownFields(at, v[name], field); err != nil {
				return err
			}
		}
	case bool, float64:
		if t.Kind() == reflect.String {
			return fmt.Errorf("%s: YAML reads this as %v and not as a text, as it does numbers, true, false, y, n, yes, no, on and off: put it in quotes", path, v)
		}
	}
	return nil
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = f.Type
	}
	return out
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "list"
	case reflect.Struct:
		return "mapping"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "number"
	}
	return t.Kind().String()
}

func (f schemaFile) schema() (*percolator.Schema, error) {
	var failed error
	name := func(field, shown string) string {
		key, err := text.FromShown(shown)
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", field, err)
		}
		return key
	}
	names := func(field string, texts []string) (out []string) {
		for i, text := range texts {
			out = append(out, name(fmt.Sprintf("%s[%d]", field, i), text))
		}
		return out
	}
	duration := func(field, text string) time.Duration {
		if text == "" {
			return 0
		}
		d, err := time.ParseDuration(text)
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %.64q is not a duration such as 720h", field, text)
		}
		return d
	}
	s := &percolator.Schema{Name: f.Name, DisableJournal: f.DisableJournal}
	for i, t := range f.Tables {
		at := fmt.Sprintf("tables[%d]", i)
		table := percolator.Table{Name: t.Name, Schema: t.Schema, Observed: names(at+".observed", t.Observed), Weak: names(at+".weak", t.Weak), Splits: names(at+".splits", t.Splits)}
		if q := t.Queue; q != nil {
			if failed == nil && (q.Column == "" || q.Parts < 1 || q.Parts > maxParts) {
				failed = fmt.Errorf("%s.queue: wants a column, and parts from 1 to %d", at, maxParts)
			}
			for part := range min(q.Parts, maxParts) {
				table.Weak = append(table.Weak, text.PartName(name(at+".queue.column", q.Column), part))
			}
		}
		table.TTL, table.NotifyExpired = duration(at+".ttl", t.TTL), t.NotifyExpired
		for j, c := range t.Columns {
			in := fmt.Sprintf("%s.columns[%d]", at, j)
			table.Columns = append(table.Columns, percolator.ColumnSchema{Name: name(in+".name", c.Name), Type: c.Type, TTL: duration(in+".ttl", c.TTL), NotifyExpired: c.NotifyExpired})
		}
		for j, ix := range t.Indexes {
			table.Indexes = append(table.Indexes, percolator.Index{Name: ix.Name, Column: name(fmt.Sprintf("%s.indexes[%d].column", at, j), ix.Column), Unique: ix.Unique})
		}
		s.Tables = append(s.Tables, table)
	}
	if f.Timing != nil {
		s.Timing.RequestLifetime = duration("timing.requestLifetime", f.Timing.RequestLifetime)
		s.Timing.MetaMaxAge = duration("timing.metaMaxAge", f.Timing.MetaMaxAge)
	}
	return s, failed
}

// maxParts is the most parts that a queue may have.
const maxParts = 1024

// YAML is the schema as a file, the reverse of Parse.
func YAML(s *percolator.Schema) ([]byte, error) {
	f := fileOf(s)
	for i, t := range s.Tables {
		if n := len(t.Weak); n > 1 && n <= maxParts && len(text.Spans(t.Weak)) == 1 {
			column, _, _ := text.Part(t.Weak[0])
			f.Tables[i].Weak, f.Tables[i].Queue = nil, &queueFile{quoted(column), n}
		}
	}
	return yamlv2.Marshal(f)
}

// JSON is the schema as a file in JSON, in which all columns of a queue are listed.
func JSON(s *percolator.Schema) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(fileOf(s))
	return b.Bytes(), err
}

func quoted(name string) string {
	if !utf8.ValidString(name) || strings.HasPrefix(name, `"`) {
		return strconv.QuoteToASCII(name)
	}
	return name
}

// fileOf is the reverse of schema.
func fileOf(s *percolator.Schema) schemaFile {
	index := func(ix percolator.Index) indexFile { return indexFile{ix.Name, quoted(ix.Column), ix.Unique} }
	column := func(c percolator.ColumnSchema) columnFile {
		return columnFile{quoted(c.Name), c.Type, Duration(c.TTL), c.NotifyExpired}
	}
	f := schemaFile{Name: s.Name, DisableJournal: s.DisableJournal, Tables: ordered.Map(s.Tables, func(t percolator.Table) tableFile {
		return tableFile{
			t.Name, t.Schema, ordered.Map(t.Observed, quoted), ordered.Map(t.Weak, quoted), nil, ordered.Map(t.Indexes, index), ordered.Map(t.Splits, quoted),
			ordered.Map(t.Columns, column), Duration(t.TTL), t.NotifyExpired,
		}
	})}
	if s.Timing != (percolator.Timing{}) {
		f.Timing = &timingFile{Duration(s.Timing.RequestLifetime), Duration(s.Timing.MetaMaxAge)}
	}
	return f
}

// Duration is a time as the file has it, such as 24h; "" for none.
func Duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := strings.TrimSuffix(d.String(), "m0s")
	if text == d.String() {
		return text
	}
	if hours, ok := strings.CutSuffix(text, "h0"); ok {
		return hours + "h"
	}
	return text + "m"
}
