// Package catalog prepares a schema for look-ups, checks and stores it, and knows what follows from
// it: the names of the tables of Bigtable, the keys of index entries, the times that clients agree
// on. Everybody who speaks of a schema stands on it, and it stands on package model alone.
package catalog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
)

// unknownName is ErrSchemaMismatch for a name that the schema lacks. It is ErrInvalidArgument as
// well, as the name of a column is: whoever gave it may have misspelt it.
type unknownName struct{ error }

func (e unknownName) Unwrap() error { return e.error }

func (unknownName) Is(target error) bool { return target == model.ErrInvalidArgument }

// BigtableNames lists the Bigtable tables that carry t: its own and one for each index.
func BigtableNames(t model.Table) []string {
	return append([]string{t.Name}, ordered.Map(t.Indexes, func(ix model.Index) string { return IndexTable(t.Name, ix) })...)
}

// AllTables lists the Bigtable tables that carry s.
func AllTables(s *model.Schema) (names []string) {
	for _, t := range s.Tables {
		names = append(names, BigtableNames(t)...)
	}
	return names
}

// IndexTable is the Bigtable table of an index on table.
func IndexTable(table string, ix model.Index) string { return table + "." + ix.Name }

// Catalog is a schema prepared for look-ups on the hot path. It is immutable.
type Catalog struct {
	Schema *model.Schema
	Tables map[string]*TableInfo // by Bigtable name, indexes among them
}

// TableInfo is a table with its columns as sets.
type TableInfo struct {
	model.Table
	IsObserved map[string]bool
	IsWeak     map[string]bool
	IndexesOf  map[string][]model.Index // by column
	Declared   *Declarations
	index      bool // this is the table of an index, or is being dropped
}

// New prepares a valid schema.
func New(s *model.Schema) *Catalog {
	c := &Catalog{Schema: s, Tables: map[string]*TableInfo{}}
	for _, t := range s.Tables {
		info := &TableInfo{Table: t, IsObserved: SetOf(t.Observed), IsWeak: SetOf(t.Weak), IndexesOf: map[string][]model.Index{}, Declared: declarationsOf(t.Columns)}
		for _, ix := range t.Indexes {
			info.IndexesOf[ix.Column] = append(info.IndexesOf[ix.Column], ix)
			c.Tables[IndexTable(t.Name, ix)] = &TableInfo{Table: model.Table{Name: IndexTable(t.Name, ix)}, index: true}
		}
		c.Tables[t.Name] = info
	}
	for _, name := range s.Dropping {
		c.Tables[name] = &TableInfo{Table: model.Table{Name: name}, index: true}
	}
	return c
}

// CheckColumn validates the name of a column that a caller wants to read or write: it has to be
// declared in a table that declares its columns.
func (t *TableInfo) CheckColumn(c model.Cell) error {
	if err := ValidateColumn(c); err != nil {
		return err
	}
	return t.Declared.Check(c)
}

// CheckPut checks a value against the column's declared type, and what its indexes can hold. The
// name of the column is valid.
func (t *TableInfo) CheckPut(c model.Cell, value []byte) error {
	if err := t.Declared.checkPut(c, value); err != nil {
		return err
	}
	for _, ix := range t.IndexesOf[c.Column] {
		if err := CheckIndexEntry(ix, c, value); err != nil {
			return err
		}
	}
	return nil
}

// CheckType returns ErrInvalidArgument if a program reads or writes a column as another type than
// the declared one, whose values may have the same length. The empty type is any, as is a column
// of bytes.
func (t *TableInfo) CheckType(c model.Cell, as model.Type) error {
	decl, ok := t.Declared.Of(c.Column)
	switch {
	case !ok, as == "", decl.Type == as, decl.Type == model.TypeBytes, decl.Type == model.TypeJSON && as == model.TypeString:
		return nil // or it is not declared, as CheckColumn tells
	}
	return CellError(model.ErrInvalidArgument, c, "the column is declared %s, and the program uses it as %s", decl.Type, as)
}

// UserTable returns the table if a caller may name it; tables of indexes belong to the engine.
func (c *Catalog) UserTable(name string) (*TableInfo, bool) {
	t, ok := c.Tables[name]
	return t, ok && !t.index
}

// TypeOf returns the declared type of a column: TypeBytes where nothing is declared, also of a
// table that the schema does not have.
func (c *Catalog) TypeOf(table, column string) model.Type {
	if info, ok := c.UserTable(table); ok {
		if decl, ok := info.Declared.Of(column); ok {
			return decl.Type
		}
	}
	return model.TypeBytes
}

// SetOf is the set of names.
func SetOf(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// UnknownTable is ErrSchemaMismatch for a table that the schema lacks.
func (c *Catalog) UnknownTable(table string) error {
	var names []string
	for _, t := range c.Schema.Tables {
		names = append(names, t.Name)
		for _, ix := range t.Indexes {
			if table == ix.Name || table == IndexTable(t.Name, ix) {
				return unknownName{fmt.Errorf("percolator: table %q: %w: it is an index of table %q, which ScanIndex and percolator scan %s --index %s read", table, model.ErrSchemaMismatch, t.Name, t.Name, ix.Name)}
			}
		}
	}
	hint := text.DidYouMean(table, names...)
	hint = cmp.Or(hint, "; percolator schema apply, or CreateSchema, adds it")
	return unknownName{fmt.Errorf("percolator: table %.64q: %w: it is not in the schema%s", table, model.ErrSchemaMismatch, hint)}
}

// Unobserved is ErrSchemaMismatch for a column that the table does not observe.
func (t *TableInfo) Unobserved(column string) error {
	return fmt.Errorf("percolator: table %q: %w: column %.64q is not observed%s", t.Name, model.ErrSchemaMismatch, column, text.DidYouMean(column, t.Observed...))
}

// UnknownIndex is ErrSchemaMismatch for an index that the table lacks.
func (t *TableInfo) UnknownIndex(index string) error {
	names := ordered.Map(t.Indexes, func(ix model.Index) string { return ix.Name })
	return unknownName{fmt.Errorf("percolator: table %q: %w: it has no index %q%s", t.Name, model.ErrSchemaMismatch, index, text.DidYouMean(index, names...))}
}

// A table that is being dropped is one that only the engine knows: no caller may name it, no column
// of it notifies, and locks that name a primary in it are resolved (I26). It stands in the stored
// schema under the names of its Bigtable tables, and not among the tables: what programs declare
// does not have it.

// WithDropping is s with these Bigtable tables as the ones that are being dropped.
func WithDropping(s *model.Schema, names []string) *model.Schema {
	out := *s
	out.Dropping = slices.Clone(names)
	return &out
}
