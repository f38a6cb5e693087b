package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/text"
)

// ColumnSchema declares a column, or several: a Name that ends in "*" declares all columns whose
// names begin with what stands before it, such as "item:*". There is no way to declare one column
// whose name ends in "*". A column's own declaration goes before that of a prefix, and a long
// prefix before a short one.
type ColumnSchema struct {
	Name string        // up to a final "*", the prefix of the names of columns
	Type Type          `json:",omitempty"` // "": TypeBytes
	TTL  time.Duration `json:",omitempty"` // 0: that of the table

	NotifyExpired bool `json:",omitempty"` // observers hear when a value has expired; needs a TTL
}

// minTTL is the shortest TTL.
const minTTL = time.Second

func validateTTL(table, what string, ttl time.Duration) error {
	if ttl != 0 && ttl < minTTL {
		return fmt.Errorf("percolator: table %q: %w: the TTL of %s must be at least %v, or 0 for none", table, ErrInvalidArgument, what, minTTL)
	}
	return nil
}

// MaxDeclaredColumns is how many declarations of columns a table may have.
const MaxDeclaredColumns = 1000

// prefixOf returns the prefix that the declaration names, if it names one.
func prefixOf(d ColumnSchema) (string, bool) { return strings.CutSuffix(d.Name, "*") }

// validateDeclarations checks Columns and TTL, and that a declared table declares what the rest of
// it speaks of.
func validateDeclarations(t *Table) error {
	if err := validateTTL(t.Name, "the table", t.TTL); err != nil {
		return err
	}
	if err := validateNotifyExpired(t); err != nil || len(t.Columns) == 0 {
		return err
	}
	if len(t.Columns) > MaxDeclaredColumns {
		return fmt.Errorf("percolator: table %q: %w: it declares %d columns, the limit is %d; declare families by a prefix", t.Name, ErrTooLarge, len(t.Columns), MaxDeclaredColumns)
	}
	seen := map[string]bool{}
	for _, d := range t.Columns {
		cell := Cell{t.Name, "", d.Name}
		if err := ValidateColumn(cell); err != nil {
			return err
		}
		switch {
		case seen[d.Name]:
			return CellError(ErrInvalidArgument, cell, "the column is declared twice")
		case d.Type != "" && !slices.Contains(Types, d.Type):
			return CellError(ErrInvalidArgument, cell, "%q is no type; there are %s", string(d.Type), typeList())
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
		return CellError(ErrInvalidArgument, Cell{t.Name, "", col}, "the table declares its columns, and not this one, which %s%s", how, info.meant(col))
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
	texts := make([]string, len(Types))
	for i, t := range Types {
		texts[i] = string(t)
	}
	return strings.Join(texts, ", ")
}

// normalizedColumns is in a fixed order and has one text for each type.
func normalizedColumns(columns []ColumnSchema) []ColumnSchema {
	out := slices.Clone(columns)
	for i := range out {
		if out[i].Type == TypeBytes {
			out[i].Type = ""
		}
	}
	slices.SortFunc(out, func(a, b ColumnSchema) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Declarations are the declared columns of a table, for look-ups on the hot path. The nil value is
// that of a table that declares none: every column is in it, and holds bytes.
type Declarations struct {
	columns  []ColumnSchema // all of them, with their types
	exact    map[string]ColumnSchema
	prefixes []ColumnSchema // the longest first
}

func declarationsOf(columns []ColumnSchema) *Declarations {
	if len(columns) == 0 {
		return nil
	}
	d := &Declarations{columns: slices.Clone(columns), exact: map[string]ColumnSchema{}}
	for i := range d.columns {
		c := &d.columns[i]
		c.Type = cmp.Or(c.Type, TypeBytes)
		if _, ok := prefixOf(*c); ok {
			d.prefixes = append(d.prefixes, *c)
		} else {
			d.exact[c.Name] = *c
		}
	}
	slices.SortFunc(d.prefixes, func(a, b ColumnSchema) int { return cmp.Compare(len(b.Name), len(a.Name)) })
	return d
}

// Columns are the declarations in the order of the schema. They have types.
func (d *Declarations) Columns() []ColumnSchema {
	if d == nil {
		return nil
	}
	return d.columns
}

// Named returns the declaration with this name, which may end in "*".
func (d *Declarations) Named(name string) (ColumnSchema, bool) {
	at := slices.IndexFunc(d.Columns(), func(c ColumnSchema) bool { return c.Name == name })
	if at < 0 {
		return ColumnSchema{}, false
	}
	return d.columns[at], true
}

// Of returns the declaration of a column; false: the table has declarations, and none for it.
func (d *Declarations) Of(column string) (ColumnSchema, bool) {
	if d == nil {
		return ColumnSchema{Type: TypeBytes}, true
	}
	if c, ok := d.exact[column]; ok {
		return c, true
	}
	return d.ofPrefix(column)
}

func (d *Declarations) ofPrefix(p string) (ColumnSchema, bool) {
	for _, c := range d.prefixes {
		if strings.HasPrefix(p, c.Name[:len(c.Name)-1]) {
			return c, true
		}
	}
	return ColumnSchema{}, false
}

// For returns the declaration that speaks of the columns of c, which may be others too; false: none
// does.
func (d *Declarations) For(c ColumnSchema) (ColumnSchema, bool) {
	if d == nil {
		return ColumnSchema{}, false
	}
	if p, ok := prefixOf(c); ok {
		return d.ofPrefix(p)
	}
	return d.Of(c.Name)
}

// Check returns ErrInvalidArgument for a column that the table does not declare.
func (d *Declarations) Check(c Cell) error {
	if _, ok := d.Of(c.Column); ok {
		return nil
	}
	return CellError(ErrInvalidArgument, c, "the table declares its columns, and not this one%s", d.meant(c.Column))
}

// checkPut returns ErrInvalidArgument for a column that the table does not declare, and for a value
// that is not of the column's type.
func (d *Declarations) checkPut(c Cell, value []byte) error {
	if d == nil {
		return nil
	}
	decl, ok := d.Of(c.Column)
	if !ok {
		return d.Check(c)
	}
	if err := decl.Type.Check(value); err != nil {
		return CellError(ErrInvalidArgument, c, "the column is declared %s: %v", decl.Type, err)
	}
	return nil
}

// meant says which declared name is nearest, if one is near: of a family, the column's own with the
// prefix corrected.
func (d *Declarations) meant(column string) string {
	names := make([]string, len(d.columns))
	for i, c := range d.columns {
		names[i] = c.Name
		if p, isPrefix := prefixOf(c); isPrefix {
			names[i] = p + column[min(len(p), len(column)):]
		}
	}
	return text.DidYouMean(column, names...)
}
