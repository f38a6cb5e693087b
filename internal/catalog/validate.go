package catalog

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// minTTL is the shortest TTL.
const minTTL = time.Second

func validateTTL(table, what string, ttl time.Duration) error {
	if ttl != 0 && ttl < minTTL {
		return fmt.Errorf("percolator: table %q: %w: the TTL of %s must be at least %v, or 0 for none", table, model.ErrInvalidArgument, what, minTTL)
	}
	return nil
}

// validateDeclarations checks Columns and TTL, and that a declared table declares what the rest of
// it speaks of.
func validateDeclarations(t *model.Table) error {
	if err := validateTTL(t.Name, "the table", t.TTL); err != nil {
		return err
	}
	if err := validateNotifyExpired(t); err != nil || len(t.Columns) == 0 {
		return err
	}
	if len(t.Columns) > model.MaxDeclaredColumns {
		return fmt.Errorf("percolator: table %q: %w: it declares %d columns, the limit is %d; declare families by a prefix", t.Name, model.ErrTooLarge, len(t.Columns), model.MaxDeclaredColumns)
	}
	seen := map[string]bool{}
	for _, d := range t.Columns {
		cell := model.Cell{Table: t.Name, Column: d.Name}
		if err := ValidateColumn(cell); err != nil {
			return err
		}
		switch {
		case seen[d.Name]:
			return CellError(model.ErrInvalidArgument, cell, "the column is declared twice")
		case d.Type != "" && !slices.Contains(model.Types, d.Type):
			return CellError(model.ErrInvalidArgument, cell, "%.64q is no type; there are %s", string(d.Type), typeList())
		}
		if err := validateTTL(t.Name, fmt.Sprintf("column %q", d.Name), d.TTL); err != nil {
			return err
		}
		seen[d.Name] = true
	}
	info := declarationsOf(t.Columns)
	uses := func(col, how string) error {
		if _, ok := info.Of(col); ok {
			return nil
		}
		return CellError(model.ErrInvalidArgument, model.Cell{Table: t.Name, Column: col}, "the table declares its columns, and not this one, which %s%s", how, info.meant(col))
	}
	for _, col := range t.Observed {
		if err := uses(col, "is observed"); err != nil {
			return err
		}
	}
	for _, col := range t.Weak {
		if err := uses(col, "is weak"); err != nil {
			return err
		}
	}
	for _, ix := range t.Indexes {
		if err := uses(ix.Column, fmt.Sprintf("has the index %q", ix.Name)); err != nil {
			return err
		}
	}
	return nil
}

func typeList() string {
	return strings.Join(ordered.Map(model.Types, func(t model.Type) string { return string(t) }), ", ")
}

// tableName is a table id that Bigtable accepts, less the dot, which separates a table from its
// index.
var tableName = regexp.MustCompile(`^[_a-zA-Z0-9][-_a-zA-Z0-9]{0,49}$`)

// bigtableName is a table id that Bigtable accepts.
var bigtableName = regexp.MustCompile(`^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$`)

// Validate reports what is wrong with a schema, as ErrInvalidArgument.
func Validate(s *model.Schema) error {
	if s == nil {
		return fmt.Errorf("percolator: %w: no schema", model.ErrInvalidArgument)
	}
	if err := CheckTiming(s.Timing); err != nil {
		return err
	}
	return ValidateStored(s)
}

// ValidateStored is Validate for a schema with the Timing of an instance, which cannot change.
func ValidateStored(s *model.Schema) error {
	if err := CheckStoredTiming(s.Timing); err != nil {
		return err
	}
	seen := map[string]bool{model.MetaTable: true, model.JournalTable: true}
	for _, t := range s.Tables {
		if s.Name != "" && t.Schema != "" && t.Schema != s.Name {
			// A drop would delete the other tables of that name.
			return fmt.Errorf("percolator: table %q: %w: it is in %s, so it has no place in %s", t.Name, model.ErrInvalidArgument, schemaText(t.Schema), schemaText(s.Name))
		}
		if name := cmp.Or(t.Schema, s.Name); name != "" && !tableName.MatchString(name) {
			return fmt.Errorf("percolator: %w: %.64q is not a name for a schema; it has the form of a table's", model.ErrInvalidArgument, name)
		}
		if !tableName.MatchString(t.Name) || t.Name == model.MetaTable || t.Name == model.JournalTable {
			return fmt.Errorf("percolator: table %.64q: %w: not a table name", t.Name, model.ErrInvalidArgument)
		}
		for _, name := range BigtableNames(t) {
			if !bigtableName.MatchString(name) || seen[name] {
				return fmt.Errorf("percolator: table %q: %w: the table %.64q is named twice or is not a table name", t.Name, model.ErrInvalidArgument, name)
			}
			seen[name] = true
		}
		if err := validateColumns(&t); err != nil {
			return err
		}
	}
	if len(seen) > model.MaxTables {
		return fmt.Errorf("percolator: %w: the schema takes %d tables of Bigtable, those of indexes and of Percolator among them; an instance has at most %d", model.ErrTooLarge, len(seen), model.MaxTables)
	}
	for _, name := range s.Dropping {
		if !bigtableName.MatchString(name) || seen[name] {
			return fmt.Errorf("percolator: table %q: %w: it is being dropped; finish that first (percolator schema apply --drop)", name, model.ErrSchemaMismatch)
		}
	}
	return nil
}

func validateColumns(t *model.Table) error {
	seen := map[string]bool{}
	for _, col := range slices.Concat(t.Observed, t.Weak) {
		if err := ValidateColumn(model.Cell{Table: t.Name, Column: col}); err != nil {
			return err
		}
		if seen[col] {
			return CellError(model.ErrInvalidArgument, model.Cell{Table: t.Name, Column: col}, "the column is listed twice among observed and weak columns")
		}
		seen[col] = true
	}
	for _, ix := range t.Indexes {
		if err := ValidateColumn(model.Cell{Table: t.Name, Column: ix.Column}); err != nil {
			return err
		}
		if ix.Name == "" || slices.Contains(t.Weak, ix.Column) {
			return CellError(model.ErrInvalidArgument, model.Cell{Table: t.Name, Column: ix.Column}, "an index needs a name and a column that can be written")
		}
	}
	return validateDeclarations(t)
}
