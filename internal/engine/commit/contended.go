package commit

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

const (
	contendedCells = 256         // that are remembered, besides those with a queue
	contendedShown = 10          // in Stats
	contendedName  = 256         // bytes of a cell's name there
	contendedHalf  = time.Minute // after which a conflict counts half
)

// contended is a cell on which transactions have conflicted.
type contended struct {
	conflicts int64 // fewer and fewer, if there are no new ones
	turns     gate
}

// end ends a turn. One at a time has it, besides those that are stuck.
func (e *contended) end(opened int) {
	e.turns.leave(opened)
	e.turns.limit = e.turns.stuck + 1
	e.turns.admit()
}

// entryConflict is a conflict on an entry of an index. The row of an entry is a value, so
// ConflictError.Cell is the indexed cell.
type entryConflict struct {
	*model.ConflictError
	entry model.Cell
}

func (e *entryConflict) Unwrap() error { return e.ConflictError }

// conflictOf is e as the conflict of a write.
func conflictOf(w *Write, e model.ConflictError) error {
	if e.Cell = w.Indexed; e.Cell != (model.Cell{}) {
		return &entryConflict{&e, w.Cell}
	}
	e.Cell = w.Cell
	return &e
}

// conflictCell is the stored cell that a conflict is on; false: err is none.
func conflictCell(err error) (model.Cell, bool) {
	if e, ok := errors.AsType[*entryConflict](err); ok {
		return e.entry, true
	}
	if e, ok := errors.AsType[*model.ConflictError](err); ok {
		return e.Cell, true
	}
	return model.Cell{}, false
}

// note remembers a conflict.
func (c *contention) note(err error) {
	on, ok := conflictCell(err)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.halved) >= contendedHalf {
		c.halved = now
		for cell, e := range c.cells {
			if e.conflicts /= 2; e.conflicts == 0 && e.idle() {
				delete(c.cells, cell)
			}
		}
	}
	c.cell(on).conflicts++
}

// cell returns what is known of a cell. The least contended of some cells without a queue makes
// room for a new one. The caller holds c.mu.
func (c *contention) cell(cell model.Cell) *contended {
	if e := c.cells[cell]; e != nil {
		return e
	}
	if c.cells == nil {
		c.cells = map[model.Cell]*contended{}
	}
	if len(c.cells) >= contendedCells {
		var least model.Cell
		looked := 0
		for other, e := range c.cells {
			if looked++; looked > contendedCells { // the others have queues, mostly
				break
			}
			if e.idle() && (least == model.Cell{} || e.conflicts < c.cells[least].conflicts) {
				least = other
			}
		}
		delete(c.cells, least)
	}
	e := new(contended)
	c.cells[cell] = e
	return e
}

func (e *contended) idle() bool { return e.turns.running+e.turns.queued() == 0 }

// shownName is a cell as errors name it, with a long row key cut, and an acknowledgment by what it
// is.
func shownName(cell model.Cell) string {
	name := cell.String()
	if of, observer, ok := layout.Acknowledged(cell.Column); ok {
		cell.Column = of
		name = cell.String() + ", acknowledgment of " + observer
	}
	if len(name) <= contendedName {
		return name
	}
	return strings.ToValidUTF8(name[:contendedName], "") + "…"
}

// contested adds the cell of a conflict to the last ones of an Update, which are sorted.
func contested(cells []model.Cell, err error) []model.Cell {
	cell, ok := conflictCell(err)
	if !ok || cell == (model.Cell{}) || slices.Contains(cells, cell) {
		return cells
	}
	if len(cells) == turnsAtOnce {
		cells = nil
	}
	cells = append(slices.Clone(cells), cell)
	slices.SortFunc(cells, catalog.CompareCells)
	return cells
}

// Contention is how Updates of this client queue now, and on which cells its transactions have
// conflicted most.
func (c *Committer) Contention() model.Contention {
	c.contention.mu.Lock()
	defer c.contention.mu.Unlock()
	g := &c.contention.attempts
	out := model.Contention{Attempts: g.running, Waiting: g.queued(), Limit: cmp.Or(g.limit, firstLimit)}
	byName := map[string]model.ContendedCell{} // entries of an index have one
	for cell, e := range c.contention.cells {
		out.Waiting += e.turns.queued()
		if e.conflicts > 0 {
			shown := byName[shownName(cell)]
			shown.Cell, shown.Conflicts, shown.Waiting = shownName(cell), shown.Conflicts+e.conflicts, shown.Waiting+e.turns.queued()
			byName[shown.Cell] = shown
		}
	}
	out.Cells = slices.Collect(maps.Values(byName))
	slices.SortFunc(out.Cells, func(a, b model.ContendedCell) int {
		return cmp.Or(cmp.Compare(b.Conflicts, a.Conflicts), cmp.Compare(a.Cell, b.Cell))
	})
	out.Cells = out.Cells[:min(len(out.Cells), contendedShown)]
	return out
}
