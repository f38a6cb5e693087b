package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// guard watches that nobody but a repair writes, resolves a lock or collects while its fence is in
// force (I20): others may do no harm this time, and some the next. A client rolls its own
// transactions back, whose outcome nobody else decides differently.
type guard struct {
	mu     sync.Mutex
	closed bool // the fence is in force
	found  []string
}

// note takes notice of changes of a row.
func (g *guard) note(process, table, row string, changes []store.Change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case table == model.MetaTable:
		g.look(changes)
	case table == model.JournalTable || !g.closed || strings.HasPrefix(process, repairer):
	case !strings.HasPrefix(process, inspector) && rollsBack(changes):
	default:
		for i := range changes {
			if f := changes[i].Family; f == layout.LockFamily || f == layout.WriteFamily || f == layout.DataFamily {
				g.found = append(g.found, fmt.Sprintf("%s writes to %s/%q/%q, family %s, beside a repair", process, table, row, changes[i].Column, f))
			}
		}
	}
}

// rollsBack reports whether changes are what is left of a roll back, or less.
func rollsBack(changes []store.Change) bool {
	return !slices.ContainsFunc(changes, func(c store.Change) bool {
		if c.Kind != store.PutVersion {
			return c.Family != layout.LockFamily && c.Family != layout.DataFamily
		}
		w, err := layout.DecodeWrite(layout.CellTime(c.From), c.Value)
		return c.Family != layout.WriteFamily || err != nil || w.Kind != layout.KindRollback
	})
}

// look takes notice of a fence that comes or goes.
func (g *guard) look(changes []store.Change) {
	for i := range changes {
		c := &changes[i]
		if c.Column != meta.ColumnFence || c.Family != layout.MetaFamily {
			continue
		}
		var f meta.Fence
		g.closed = c.Kind == store.PutVersion && json.Unmarshal(c.Value, &f) == nil && f.Repair != nil && f.Repair.Phase != model.RepairDrain
	}
}
