package layout

import (
	"cmp"
	"slices"

	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/tso"
)

// Parked returns the observers that are parked for n, a notification in the row.
func (p Pending) Parked(n model.Notification) (list []ObserverState) {
	for _, s := range p.States {
		if s.Cell == n.Cell && !s.Done && s.Through >= n.Timestamp && !p.done(n, s.Observer) {
			list = append(list, s)
		}
	}
	return list
}

// OnlyParked reports whether nothing is to be done for n until an operator retries or drops a
// parked observer: some observer of the column is parked, and all others are parked or done. It
// goes by the row alone, which may not say yet that another observer is done.
func (p Pending) OnlyParked(n model.Notification) bool {
	parked := p.Parked(n)
	for _, s := range parked {
		for _, name := range s.Observers {
			if !p.done(n, name) && !slices.ContainsFunc(parked, func(o ObserverState) bool { return o.Observer == name }) {
				return false
			}
		}
	}
	return len(parked) > 0
}

// Notifies reports whether the row may hold a notification of c at or below ts. Of each column the
// newest most were read; if there are as many, others may be there.
func (p Pending) Notifies(c model.Cell, ts tso.Timestamp, most int) bool {
	n := 0
	for _, it := range p.Notified {
		if it.Cell != c {
			continue
		}
		if n++; it.Timestamp <= ts || n == most {
			return true
		}
	}
	return false
}

func (p Pending) done(n model.Notification, observer string) bool {
	return slices.ContainsFunc(p.States, func(s ObserverState) bool {
		return s.Cell == n.Cell && s.Done && s.Observer == observer && s.Through >= n.Timestamp
	})
}

// Pending is a row in which the scan for work found something.
type Pending struct {
	Table, Row string
	Notified   []model.Notification // the newest notify cell of each column, by column
	States     []ObserverState      // parked observers and those done beside one, by column
	Locks      []Lock               // every lock in the row that can be decoded, by column
	Corrupt    []model.Cell         // cells of the two families that cannot be decoded
}

// DecodePending never fails: what it cannot decode is listed, because one hostile cell must not
// hide a table's work.
func DecodePending(table string, row Row) Pending {
	p := Pending{Table: table, Row: row.Key}
	for _, it := range row.Of(NotifyFamily) {
		p.addNotify(model.Cell{Table: table, Row: p.Row, Column: it.Column}, it)
	}
	for _, it := range row.Of(LockFamily) {
		cell := model.Cell{Table: table, Row: p.Row, Column: it.Column}
		if l, err := DecodeLock(it.Timestamp, it.Value); err == nil {
			p.Locks = append(p.Locks, l.Export(cell))
		} else {
			p.Corrupt = append(p.Corrupt, cell)
		}
	}
	slices.SortFunc(p.Notified, func(a, b model.Notification) int { return model.CompareCells(a.Cell, b.Cell) })
	slices.SortFunc(p.Locks, func(a, b Lock) int { return model.CompareCells(a.Cell, b.Cell) })
	slices.SortFunc(p.States, func(a, b ObserverState) int {
		return cmp.Or(model.CompareCells(a.Cell, b.Cell), cmp.Compare(a.Observer, b.Observer))
	})
	return p
}

// addNotify adds a cell of the notify family.
func (p *Pending) addNotify(cell model.Cell, it Item) {
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
	s := ObserverState{Cell: model.Cell{Table: cell.Table, Row: cell.Row, Column: column}, Observer: observer, Through: ts, Done: done}
	// A worker tries the observer of an undecodable state again.
	if err := DecodeObserverState(&s, it.Value); err != nil {
		p.Corrupt = append(p.Corrupt, cell)
		return
	}
	p.States = append(p.States, s)
}
