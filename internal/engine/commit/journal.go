package commit

import (
	"context"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// journal begins to append the transaction's entry, which is sent while the prewrites are.
func (cm *commit) journal(ctx context.Context) (err error) {
	if !cm.schema.Schema.DisableJournal {
		cm.appended = time.Now()
		if cm.entry, err = cm.c.Journal.Append(ctx, cm.journaled()); len(cm.weak) == 0 {
			cm.entry.Overwrites(cm.overwrites)
		}
	}
	return err
}

// overwrites is the rows that need not be read to erase what the transaction has made garbage once
// it has committed (J13). The primary's row comes first, as in the entry.
func (cm *commit) overwrites() (rows []journal.CommittedRow) {
	for i, rw := range cm.rows {
		if slices.ContainsFunc(rw.writes, (*Write).leadsCollector) {
			continue
		}
		r := journal.CommittedRow{Place: i, Columns: make([]string, len(rw.writes))}
		for j, w := range rw.writes {
			r.Columns[j] = w.Cell.Column
		}
		rows = append(rows, r)
	}
	return rows
}

// leadsCollector reports whether the collector has to read the row for this write: it becomes
// garbage by itself, or an observer has yet to see it, or what it is beside waits for it, as a
// deletion does for locks and acknowledgments above the watermark.
func (w *Write) leadsCollector() bool {
	return w.observed || w.Kind != layout.KindPut || w.Life != layout.Lifetime{}
}

// journaled names every row that the transaction writes or notifies.
func (cm *commit) journaled() *model.JournalEntry {
	e := &model.JournalEntry{StartTS: cm.startTS, Rows: make([]model.JournalName, 0, len(cm.rows))}
	if cm.primary != nil {
		e.Primary = cm.primary.Cell
	}
	at := map[layout.RowID]int{}
	for _, rw := range cm.rows {
		r := model.JournalName{Table: rw.table, Key: rw.row}
		for _, w := range rw.writes {
			r.Observed = r.Observed || w.observed
		}
		if len(cm.weak) > 0 {
			at[layout.RowID{Table: rw.table, Key: rw.row}] = len(e.Rows)
		}
		e.Rows = append(e.Rows, r)
	}
	for _, c := range cm.weak {
		k := layout.RowID{Table: c.Table, Key: c.Row}
		i, ok := at[k]
		if !ok {
			i = len(e.Rows)
			at[k], e.Rows = i, append(e.Rows, model.JournalName{Table: c.Table, Key: c.Row})
		}
		e.Rows[i].Weak = true
	}
	return e
}

// notified is the cells of a row that carry notifications once it is committed.
func (rw *rowWrites) notified() (cells []model.Cell) {
	for _, w := range rw.writes {
		if w.observed {
			cells = append(cells, w.Cell)
		}
	}
	return cells
}

// Announcement is the entry of work that no transaction makes: a weak notification by itself, a
// backfill, a retry (J2).
type Announcement struct {
	TS       tso.Timestamp // of the notify cells
	Deadline time.Time     // sends nothing of the work after it; the rest is announced anew
	entry    *journal.Append
}

// Announce has rows in the journal before anything is written to them. The order is what matters:
// deadline, whether there are a journal and no repair, the entry's timestamp, the entry, the
// timestamp of the notify cells, the age. So all requests end within a lifetime of the moment in
// which others may first read the entry, and a process that was suspended in between sends nothing.
func (c *Committer) Announce(ctx context.Context, rows []model.JournalName) (a Announcement, err error) {
	started := time.Now()
	if a.Deadline, err = c.Meta.CheckRepairing(ctx); err != nil {
		return a, err
	}
	oldest := &a.TS
	if c.Meta.Journaled() && len(rows) > 0 {
		start, err := c.Clock.Next(ctx)
		if err != nil {
			return a, err
		}
		oldest = &start // a collected entry leads to nothing written after it
		if a.entry, err = c.Journal.Append(ctx, &model.JournalEntry{StartTS: start, Rows: rows}); err != nil {
			return a, err
		}
		if err := a.entry.Wait(ctx); err != nil {
			return a, err
		}
	}
	if a.TS, err = c.Clock.Next(ctx); err != nil {
		return a, err
	}
	return a, c.checkAge(*oldest, started)
}

// Done says that the announced notifications of cells were written.
func (c *Committer) Done(a Announcement, cells ...model.Cell) {
	c.Journal.Own.Committed(a.entry, a.TS, 0, cells)
}

// WeakRows is the rows of cells that are notified.
func WeakRows(cells []model.Cell) (rows []model.JournalName) {
	seen := map[layout.RowID]bool{}
	for _, c := range cells {
		if k := (layout.RowID{Table: c.Table, Key: c.Row}); !seen[k] {
			seen[k] = true
			rows = append(rows, model.JournalName{Table: c.Table, Key: c.Row, Weak: true})
		}
	}
	return rows
}
