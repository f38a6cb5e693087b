package history

import "github.com/gopercolator/percolator/tso"

// Import is an import into a table that has ended. What it has written is recorded as one
// transaction, which commits at Commit.
type Import struct {
	Table  string
	Commit tso.Timestamp
	Since  tso.Timestamp // the table is readable at it and above
	Fenced int64         // a moment (Recording.Moment) from which no client could use the table
}

// Imported records an import that has ended.
func (h *Recording) Imported(i Import) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.imports = append(h.imports, i)
}

// checkImports: no snapshot below the end of an import reads the table once it is closed, and
// no transaction that began below it commits there any more (I28).
func (c *Checker) checkImports() {
	for _, i := range c.h.imports {
		for _, t := range c.txns {
			switch {
			case t.start == 0 || t.start >= i.Since || len(t.exported) > 0:
				// The transaction did not read these in the table.
			case (t.start >= i.Commit || t.began > i.Fenced) && c.reads(t, i.Table):
				c.report.add(anomalyImport, "%s read %s, into which an import ended at %d", t, i.Table, i.Since)
			case t.committed && t.at > i.Commit && c.changes(t, i.Table):
				c.report.add(anomalyImport, "%s began before an import into %s ended, at %d, and committed there", t, i.Table, i.Since)
			}
		}
	}
}

// reads tells whether a transaction was answered about a table.
func (c *Checker) reads(t *Txn, table string) bool {
	for _, o := range t.ops {
		switch o.kind {
		case opScan:
			if o.scan.table == table {
				return true
			}
		case opRead, opPresent:
			if c.h.names[o.cell].Table == table {
				return true
			}
		}
	}
	return false
}

// changes tells whether a transaction leaves anything in a table.
func (c *Checker) changes(t *Txn, table string) bool {
	for _, e := range t.effects() {
		if c.h.names[e.cell].Table == table {
			return true
		}
	}
	return false
}
