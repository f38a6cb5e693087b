package layout

import (
	"cmp"
	"slices"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// DecodePending never fails: what it cannot decode is listed, because one hostile cell must not
// hide a table's work.
func DecodePending(table string, row Row) model.Pending {
	p := model.Pending{Table: table, Row: row.Key}
	for _, it := range row.Of(NotifyFamily) {
		addNotify(&p, model.Cell{Table: table, Row: p.Row, Column: it.Column}, it)
	}
	for _, it := range row.Of(LockFamily) {
		cell := model.Cell{Table: table, Row: p.Row, Column: it.Column}
		if l, err := DecodeLock(it.Timestamp, it.Value); err == nil {
			p.Locks = append(p.Locks, l.Export(cell))
		} else {
			p.Corrupt = append(p.Corrupt, cell)
		}
	}
	slices.SortFunc(p.Notified, func(a, b model.Notification) int { return catalog.CompareCells(a.Cell, b.Cell) })
	slices.SortFunc(p.Locks, func(a, b model.Lock) int { return catalog.CompareCells(a.Cell, b.Cell) })
	slices.SortFunc(p.States, func(a, b model.ObserverState) int {
		return cmp.Or(catalog.CompareCells(a.Cell, b.Cell), cmp.Compare(a.Observer, b.Observer))
	})
	return p
}

// addNotify adds a cell of the notify family.
func addNotify(p *model.Pending, cell model.Cell, it Item) {
	ts, err := FromCell(it.Timestamp)
	if err != nil {
		p.Corrupt = append(p.Corrupt, cell)
		return
	}
	column, observer, done, ok := ObserverStateColumn(cell.Column)
	if !ok {
		p.Notified = append(p.Notified, model.Notification{Cell: cell, Timestamp: ts})
		return
	}
	s := model.ObserverState{Cell: model.Cell{Table: cell.Table, Row: cell.Row, Column: column}, Observer: observer, Through: ts, Done: done}
	// A worker tries the observer of an undecodable state again.
	if err := DecodeObserverState(&s, it.Value); err != nil {
		p.Corrupt = append(p.Corrupt, cell)
		return
	}
	p.States = append(p.States, s)
}
