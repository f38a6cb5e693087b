package meta

import (
	"fmt"
	"maps"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A stored position of a walk over a table says what is done for an index, for an observed column
// or in the table. After a drop the same name may stand for something else, of which nothing is
// done; after an import the table, which was empty, has rows that no walk has seen. So a position
// names the life of what it belongs to, and who finds one of another life begins anew. A walk that
// lives through the end of a life does not claim to have come to its end.
//
// A life ends in the very mutation that begins the drop, or ends the import. Rejected: to erase
// positions at a drop. A walk that does not know of the drop yet saves its position once more.

// columnLives is the column of the meta row with the ends of lives. It changes with the schema's
// version.
const columnLives = "lives"

// Lives is the versions of the schema in which what has these names was dropped last: tables of
// Bigtable, those of indexes among them, and, by observedKey, what is observed.
type Lives map[string]uint64

// anyName stands among lives for the names that are not there.
const anyName = ""

// drop is the version of the schema at the last drop of a name, or a later one.
func (l Lives) drop(name string) uint64 { return max(l[name], l[anyName]) }

// Life tells what has a name from what had it before.
type Life struct {
	Drop   uint64        `json:",omitempty"` // version of the schema at the last drop
	Import tso.Timestamp `json:",omitempty"` // Import.Since of the table
}

// observedKey is the key of a column as one that is observed. No table has a name that begins with
// a colon.
func observedKey(table, column string) string { return ":" + columnKey(table, column) }

// ended is the lives once those of these names have ended in the version after m. Lives grow with
// every name, and none may be forgotten: a position from before its drop would be believed. So
// where they are too many, all lives end, and each walk begins anew once. A client of an earlier
// version does not know anyName, and believes such positions.
func (m State) ended(names ...string) Lives {
	out := Lives{}
	maps.Copy(out, m.Lives)
	for _, name := range names {
		out[name] = m.Version + 1
	}
	if len(layout.JSON(out)) > maxCellBytes {
		out = Lives{anyName: m.Version + 1}
	}
	return out
}

// LifeOfTable is the life of a table.
func (m State) LifeOfTable(table string) Life { return m.life(table) }

// LifeOfIndex is the life of an index of a table.
func (m State) LifeOfIndex(table string, ix model.Index) Life {
	return m.life(table, catalog.IndexTable(table, ix))
}

// LifeOfObserved is the life of a column as one that is observed.
func (m State) LifeOfObserved(table, column string) Life {
	return m.life(table, observedKey(table, column))
}

// life is that of the youngest: versions only grow, so each end of a life changes it.
func (m State) life(table string, others ...string) Life {
	l := Life{m.Lives.drop(table), m.Imports[table].Since}
	for _, name := range others {
		l.Drop = max(l.Drop, m.Lives.drop(name))
	}
	return l
}

// Became is the error of a walk over a table that began in life l, and finds another one:
// ErrSchemaMismatch after a drop, ErrConflict after an import.
func (l Life) Became(now Life, table string) error {
	switch {
	case l.Drop != now.Drop:
		return fmt.Errorf("percolator: table %q: %w: it, or what the call was for, was dropped meanwhile; if it has come back, call again", table, model.ErrSchemaMismatch)
	case l != now:
		return fmt.Errorf("percolator: table %q: %w: an import has brought rows meanwhile; call again", table, model.ErrConflict)
	}
	return nil
}
