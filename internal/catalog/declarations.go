package catalog

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
)

// prefixOf returns the prefix that the declaration names, if it names one.
func prefixOf(d model.ColumnSchema) (string, bool) { return strings.CutSuffix(d.Name, "*") }

// Declarations are the declared columns of a table, for look-ups on the hot path. The nil value is
// that of a table that declares none: every column is in it, and holds bytes.
type Declarations struct {
	columns  []model.ColumnSchema // all of them, with their types
	exact    map[string]model.ColumnSchema
	prefixes []model.ColumnSchema // the longest first
}

func declarationsOf(columns []model.ColumnSchema) *Declarations {
	if len(columns) == 0 {
		return nil
	}
	d := &Declarations{columns: slices.Clone(columns), exact: map[string]model.ColumnSchema{}}
	for i := range d.columns {
		c := &d.columns[i]
		c.Type = cmp.Or(c.Type, model.TypeBytes)
		if _, ok := prefixOf(*c); ok {
			d.prefixes = append(d.prefixes, *c)
		} else {
			d.exact[c.Name] = *c
		}
	}
	slices.SortFunc(d.prefixes, func(a, b model.ColumnSchema) int { return cmp.Compare(len(b.Name), len(a.Name)) })
	return d
}

// Columns are the declarations in the order of the schema. They have types.
func (d *Declarations) Columns() []model.ColumnSchema {
	if d == nil {
		return nil
	}
	return d.columns
}

// Named returns the declaration with this name, which may end in "*".
func (d *Declarations) Named(name string) (model.ColumnSchema, bool) {
	at := slices.IndexFunc(d.Columns(), func(c model.ColumnSchema) bool { return c.Name == name })
	if at < 0 {
		return model.ColumnSchema{}, false
	}
	return d.columns[at], true
}

// Of returns the declaration of a column; false: the table has declarations, and none for it.
func (d *Declarations) Of(column string) (model.ColumnSchema, bool) {
	if d == nil {
		return model.ColumnSchema{Type: model.TypeBytes}, true
	}
	if c, ok := d.exact[column]; ok {
		return c, true
	}
	return d.ofPrefix(column)
}

func (d *Declarations) ofPrefix(p string) (model.ColumnSchema, bool) {
	for _, c := range d.prefixes {
		if strings.HasPrefix(p, c.Name[:len(c.Name)-1]) {
			return c, true
		}
	}
	return model.ColumnSchema{}, false
}

// For returns the declaration that speaks of the columns of c, which may be others too; false: none
// does.
func (d *Declarations) For(c model.ColumnSchema) (model.ColumnSchema, bool) {
	if d == nil {
		return model.ColumnSchema{}, false
	}
	if p, ok := prefixOf(c); ok {
		return d.ofPrefix(p)
	}
	return d.Of(c.Name)
}

// Check returns ErrInvalidArgument for a column that the table does not declare.
func (d *Declarations) Check(c model.Cell) error {
	if _, ok := d.Of(c.Column); ok {
		return nil
	}
	return CellError(model.ErrInvalidArgument, c, "the table declares its columns, and not this one%s", d.meant(c.Column))
}

// checkPut returns ErrInvalidArgument for a column that the table does not declare, and for a value
// that is not of the column's type.
func (d *Declarations) checkPut(c model.Cell, value []byte) error {
	if d == nil {
		return nil
	}
	decl, ok := d.Of(c.Column)
	if !ok {
		return d.Check(c)
	}
	if err := decl.Type.Check(value); err != nil {
		return CellError(model.ErrInvalidArgument, c, "the column is declared %s: %v", decl.Type, err)
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
