package commit

import (
	"context"

	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/model"
)

// journal begins to append the transaction's entry, which travels while the prewrites do.
func (cm *commit) journal(ctx context.Context) (err error) {
	if !cm.schema.Schema.DisableJournal {
		cm.entry, err = cm.c.Journal.Append(ctx, cm.journaled())
	}
	return err
}

// journaled names every row that the transaction writes or notifies.
func (cm *commit) journaled() *journal.Entry {
	e := &journal.Entry{StartTS: cm.startTS, Rows: make([]journal.Row, 0, len(cm.rows))}
	if cm.primary != nil {
		e.Primary = cm.primary.Cell
	}
	at := map[rowKey]int{}
	for _, rw := range cm.rows {
		r := journal.Row{Table: rw.table, Key: rw.row}
		for _, w := range rw.writes {
			r.Observed = r.Observed || w.observed
		}
		if len(cm.weak) > 0 {
			at[rowKey{rw.table, rw.row}] = len(e.Rows)
		}
		e.Rows = append(e.Rows, r)
	}
	for _, c := range cm.weak {
		k := rowKey{c.Table, c.Row}
		i, ok := at[k]
		if !ok {
			i = len(e.Rows)
			at[k], e.Rows = i, append(e.Rows, journal.Row{Table: c.Table, Key: c.Row})
		}
		e.Rows[i].Weak = true
	}
	return e
}

// notified is the cells that carry notifications once the transaction has committed.
func (cm *commit) notified() (cells []model.Cell) {
	if cm.entry == nil {
		return nil
	}
	for _, rw := range cm.rows {
		for _, w := range rw.writes {
			if w.observed {
				cells = append(cells, w.Cell)
			}
		}
	}
	return append(cells, cm.weak...)
}
