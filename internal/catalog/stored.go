package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gopercolator/percolator/percolator/model"
)

// normalizedColumns is in a fixed order and has one text for each type.
func normalizedColumns(columns []model.ColumnSchema) []model.ColumnSchema {
	out := slices.Clone(columns)
	for i := range out {
		if out[i].Type == model.TypeBytes {
			out[i].Type = ""
		}
	}
	slices.SortFunc(out, func(a, b model.ColumnSchema) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// NormalizeSchema returns s in a fixed order and without the splits, which matter only at creation.
func NormalizeSchema(s *model.Schema) *model.Schema {
	out := &model.Schema{Tables: slices.Clone(s.Tables), Timing: normalizedTiming(s.Timing), DisableJournal: s.DisableJournal, Dropping: slices.Sorted(slices.Values(s.Dropping))}
	for i, t := range out.Tables {
		t.Schema = cmp.Or(t.Schema, s.Name)
		t.Observed, t.Weak, t.Splits = slices.Sorted(slices.Values(t.Observed)), slices.Sorted(slices.Values(t.Weak)), nil
		t.Indexes, t.Columns = slices.Clone(t.Indexes), normalizedColumns(t.Columns)
		slices.SortFunc(t.Indexes, func(a, b model.Index) int { return strings.Compare(a.Name, b.Name) })
		out.Tables[i] = t
	}
	slices.SortFunc(out.Tables, func(a, b model.Table) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// EncodeSchema returns the stored form of s; equal schemas have equal encodings. JSON keeps only
// valid UTF-8, so EncodeSchema quotes other column names as Go does.
func EncodeSchema(s *model.Schema) []byte {
	out := NormalizeSchema(s)
	eachColumn(out, func(name string) string {
		if !utf8.ValidString(name) || strings.HasPrefix(name, `"`) {
			return strconv.QuoteToASCII(name)
		}
		return name
	})
	b, err := json.Marshal(struct {
		Format int
		*model.Schema
	}{schemaFormat, out})
	if err != nil {
		panic(err) // strings and booleans always marshal
	}
	return b
}

// SameButForJournal reports whether want differs from the stored schema at most in whether there is
// a journal, in what is being dropped, and in Timing that it leaves open: that is the operator's
// business, and no program depends on it.
func SameButForJournal(stored, want *model.Schema) bool {
	c, d := *stored, *want
	d.DisableJournal, d.Dropping, c.Dropping = c.DisableJournal, nil, nil
	d.Timing = InheritTiming(d.Timing, c.Timing)
	return string(EncodeSchema(&c)) == string(EncodeSchema(&d))
}

// schemaFormat numbers the stored form of a schema and what it asks of clients. Programs with
// different numbers cannot share an instance (J9). What a program must not ignore raises it; then
// emulator_test/upgrade/oldest has to name that commit.
const schemaFormat = 7

// DecodeSchema reverses EncodeSchema. It accepts only what CreateSchema stores: a schema that named
// the engine's own tables, say, would open them to callers. ErrSchemaMismatch: a program of another
// schemaFormat has stored it.
func DecodeSchema(b []byte) (*model.Schema, error) {
	var stored struct{ Format int }
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, err
	}
	if stored.Format != schemaFormat {
		return nil, otherFormat(stored.Format)
	}
	s := &model.Schema{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, err
	}
	var bad error
	eachColumn(s, func(name string) string {
		if !strings.HasPrefix(name, `"`) {
			return name
		}
		u, err := strconv.Unquote(name)
		bad = errors.Join(bad, err)
		return u
	})
	return s, errors.Join(bad, ValidateStored(s))
}

// otherFormat is the ErrSchemaMismatch for a stored schema of another format.
func otherFormat(format int) error {
	remedy := "upgrade this program"
	if format < schemaFormat {
		remedy = "create a new instance (percolator init, percolator schema apply); to bring the tables there, use percolator export of the program that stored this schema, and percolator import of this one"
	}
	return fmt.Errorf("percolator: %w: the stored schema has format %d, and this program reads format %d alone; %s", model.ErrSchemaMismatch, format, schemaFormat, remedy)
}

// eachColumn replaces every column name; s must own its slices.
func eachColumn(s *model.Schema, f func(string) string) {
	for i := range s.Tables {
		t := &s.Tables[i]
		for j := range t.Observed {
			t.Observed[j] = f(t.Observed[j])
		}
		for j := range t.Weak {
			t.Weak[j] = f(t.Weak[j])
		}
		for j := range t.Indexes {
			t.Indexes[j].Column = f(t.Indexes[j].Column)
		}
		for j := range t.Columns {
			t.Columns[j].Name = f(t.Columns[j].Name)
		}
	}
}
