package simulation

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/tso"
)

// unrecorded are the deletions in tables in which not only sessions delete, but also operators and
// collectors, whose transactions are not recorded. The store tells of them when they are written:
// collection erases their records.
type unrecorded struct {
	mu sync.Mutex
	of map[tso.Timestamp]*unrecordedTxn // by start timestamp
}

// unrecordedTxn is what a transaction deleted there.
type unrecordedTxn struct {
	commit tso.Timestamp
	cells  map[history.Cell]bool
}

// note takes notice of changes of a row.
func (d *unrecorded) note(_, table, row string, changes []store.Change) {
	if !workload.Cleared(table) {
		return
	}
	for i := range changes {
		c := &changes[i]
		if c.Kind != store.PutVersion || c.Family != layout.WriteFamily || strings.HasPrefix(c.Column, layout.Reserved) {
			continue
		}
		if r, err := layout.DecodeWrite(layout.CellTime(c.From), c.Value); err == nil && r.Kind == layout.KindDelete {
			d.add(r, history.Cell{Table: table, Row: row, Column: c.Column})
		}
	}
}

func (d *unrecorded) add(r layout.WriteRecord, c history.Cell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[tso.Timestamp]*unrecordedTxn{}
	}
	if d.of[r.StartTS] == nil {
		d.of[r.StartTS] = &unrecordedTxn{commit: r.CommitTS, cells: map[history.Cell]bool{}}
	}
	d.of[r.StartTS].cells[c] = true
}

// recordDeletions adds to the history what no session has begun. Those who delete a range may
// delete what had committed when they began, collectors only what has expired.
func (w *world) recordDeletions() {
	h, d := w.history, &w.unrecorded
	began := h.WriterStarts()
	for _, start := range slices.Sorted(maps.Keys(d.of)) {
		cells := slices.SortedFunc(maps.Keys(d.of[start].cells), history.Cell.Compare)
		if began[start] || h.Shared(start, cells[0]) {
			continue
		}
		t := h.Begin("nobody", "deletion")
		t.Since(0)
		t.Started(start)
		upTo := tso.Timestamp(0)
		for _, c := range cells {
			t.Delete(c)
			if !workload.Expires(c.Table) {
				upTo = w.deletions.newest(start)
			}
			h.Found(history.Record{Cell: c, Start: start, Commit: d.of[start].commit})
		}
		t.DeletesUpTo(upTo)
	}
}
