package observers

import "github.com/gopercolator/percolator/internal/engine/model"

// A column, or its table, may be dropped while a worker takes it (admin.Admin.DropFromSchema). The
// worker learns of it with its client, queues no more cells of the column, and forgets those that
// it has when their turn comes: a run could not commit. Notifications that wait are for the
// collector. A column that comes back is searched for as before.

// observes reports whether the schema, by what the client knows now, has observers for a cell.
func (w *Worker) observes(c model.Cell) bool {
	info, ok := w.engine.Meta.Catalog.Load().UserTable(c.Table)
	return ok && (info.IsObserved[c.Column] || info.IsWeak[c.Column])
}

// dropped reports whether a column that w takes is no longer observed, or weak. It says so once.
func (w *Worker) dropped(c *column) bool {
	if w.observes(c.cell("")) {
		return false
	}
	if c.dropped.CompareAndSwap(false, true) {
		w.log.Error("observers: a column was dropped, or is no longer observed: its observers do not run any more", "table", c.Table, "column", c.Name)
	}
	return true
}

// hasTable reports whether the schema still has a table.
func (w *Worker) hasTable(name string) bool {
	_, ok := w.engine.Meta.Catalog.Load().UserTable(name)
	return ok
}
