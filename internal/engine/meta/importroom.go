package meta

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// The cell of an import stays with its table's name, also when the table is dropped: by it a repair
// knows what the copies of the table may hold, and clients what they cannot read. Whoever imports
// into a new table every day would fill the meta row, which every client reads.

// MaxImports is how many tables the meta row remembers an import into.
const MaxImports = 2 * model.MaxTables

// RoomForImport refuses one table more than MaxImports. Where there is no room it forgets imports
// into tables that are gone, as far as nobody asks for them any more.
func (w *Watcher) RoomForImport(ctx context.Context, m State, table string) error {
	left := len(m.Imports)
	if _, there := m.Imports[table]; there || left < MaxImports {
		return nil
	}
	known := catalog.New(m.Schema)
	for name, i := range m.Imports {
		if known.Tables[name] != nil || !m.forgettable(name, i) {
			continue
		}
		gone, err := w.ReplaceImport(ctx, name, &i, nil)
		if err != nil {
			return err
		}
		if gone {
			left--
		}
	}
	if left >= MaxImports {
		return fmt.Errorf("percolator: table %q: %w: %d tables have had imports; the instance forgets those into tables that were dropped when the safepoint and all holds are above their ends (percolator gc status)", table, model.ErrTooLarge, left)
	}
	return nil
}

// forgettable reports whether the cell of an import into a table that is gone says nothing any
// more: no snapshot from before the import's end can be read, no repair can bring back what was
// written, and the table's life has ended by a drop, so no position from before is believed without
// the cell.
func (m State) forgettable(table string, i Import) bool {
	return i.Phase == "" && m.Lives.drop(table) > 0 && i.Since <= m.lowestRepair() && len(m.StillErased(i)) == 0
}
