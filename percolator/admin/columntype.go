package admin

import (
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/percolator"
)

// ColumnType returns the declared type of a column, by the schema as the client knows it:
// percolator.TypeBytes where nothing is declared, also of a table that the schema does not have. It
// sends nothing.
func (a *Admin) ColumnType(table, column string) percolator.Type { return typeOf(a.e, table, column) }

func typeOf(e *engine.Engine, table, column string) percolator.Type {
	if info, ok := e.Meta.Catalog.Load().UserTable(table); ok {
		if decl, ok := info.Declared.Of(column); ok {
			return decl.Type
		}
	}
	return model.TypeBytes
}
