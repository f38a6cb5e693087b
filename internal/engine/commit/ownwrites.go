package commit

import (
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

// A scan lays the transaction's own writes over what is stored, in the order of cells. The first
// scan sorts all of them, and later writes join where they belong. So the cost of a scan does not
// grow with writes outside its ranges, or beyond its limit.

// ownWrites are puts and deletes in the order of their cells.
type ownWrites = ordered.Set[*Write]

// Compare orders writes by cell.
func (w *Write) Compare(other *Write) int { return catalog.CompareCells(w.Cell, other.Cell) }

// changed tells what scans keep about a put or delete that was buffered; the caller holds tx.mu.
func (tx *Txn) changed(w *Write) {
	if !w.Kind.Changes() {
		return
	}
	if tx.sorted != nil {
		tx.sorted.Insert(w)
	}
	for _, own := range tx.indexes[model.Cell{Table: w.Cell.Table, Column: w.Cell.Column}] {
		own.ahead[w.Cell.Row] = w
	}
}

// ownIn lists the transaction's own puts and deletes that a scan of the table needs.
func (tx *Txn) ownIn(table string, o model.ScanOptions) ([]Write, error) {
	rows, columns := reads.SelectedRows(o), reads.SelectedColumns(o)
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return nil, errTxnDone()
	}
	if tx.sorted == nil {
		tx.sorted = new(ownWrites)
		for _, w := range tx.order {
			if w.Kind.Changes() {
				tx.sorted.Insert(w)
			}
		}
	}
	return selected(tx.sorted, table, rows, columns, o), nil
}

// selected copies the writes in the rows and columns of a table, in the direction of the scan. It
// stops once o.Limit rows have a put: the scan yields each of these rows, so it goes no further.
func selected(own *ownWrites, table string, rows, columns catalog.Ranges, o model.ScanOptions) (out []Write) {
	given, last := 0, "" // how many rows have a put, and the last one of these
	for i := range rows {
		r := rows[i]
		if o.Reverse {
			r = rows[len(rows)-1-i]
		}
		to := model.Cell{Table: table, Row: r.End}
		if r.End == "" {
			to.Table = table + "\x00" // behind every row
		}
		for w := range own.Between(&Write{Cell: model.Cell{Table: table, Row: r.Start}}, &Write{Cell: to}, o.Reverse) {
			isGiven := given > 0 && w.Cell.Row == last
			switch {
			case !columns.Contain(w.Cell.Column):
				continue
			case given == o.Limit && o.Limit > 0 && !isGiven:
				return out
			case w.Kind == layout.KindPut && !isGiven:
				given, last = given+1, w.Cell.Row
			}
			out = append(out, *w)
		}
	}
	return out
}
