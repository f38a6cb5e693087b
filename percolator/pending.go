package percolator

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// Pending is a row in which the scan for work found something.
type Pending struct {
	Table, Row string
	Notified   []Notification // the newest notify cell of each column, by column
	Standings  []Standing     // observers that are parked, or done beside a parked one, by column
	Locks      []Lock         // every lock in the row that can be decoded, by column
	Corrupt    []Cell         // cells of the two families that cannot be decoded
}

// ScanPending streams, in row order, the rows of table in r that carry notify or lock cells. It reads only these two
// families, which hold nothing of clean rows (section 2.4 of the paper). A crash between the commit point and a secondary
// leaves an observed cell locked and without its notify cell, so both are needed to find all work.
func (c *Client) ScanPending(ctx context.Context, table string, r Range) iter.Seq2[Pending, error] {
	return func(yield func(Pending, error) bool) {
		if _, ok := c.catalog.Load().user(table); !ok {
			yield(Pending{}, unknownTable(table))
			return
		}
		for !r.empty() {
			page, more, err := c.ReadPending(ctx, table, r, MaxPendingRows)
			if err != nil {
				yield(Pending{}, err)
				return
			}
			for _, p := range page {
				if !yield(p, nil) {
					return
				}
			}
			if !more {
				return
			}
			r.Start = page[len(page)-1].Row + "\x00"
		}
	}
}

// WrittenSince reports whether any transaction has committed a write to a row of table at or after ts. It reads the write
// family of the whole table until it finds one, so it is for tools and for the end of a wait.
func (c *Client) WrittenSince(ctx context.Context, table string, ts tso.Timestamp) (bool, error) {
	if _, ok := c.catalog.Load().user(table); !ok {
		return false, unknownTable(table)
	}
	found := false
	filter := bigtable.ChainFilters(bigtable.ColumnRangeFilter(writeFamily, "", ""), from(ts), bigtable.LatestNFilter(1), bigtable.StripValueFilter())
	err := c.store.readRows(ctx, table, bigtable.InfiniteRange(""), func(bigtable.Row) bool {
		found = true
		return false
	}, bigtable.RowFilter(filter), bigtable.LimitRows(1))
	return found, err
}

// decodePending never fails: what it cannot decode is listed, because one hostile cell must not hide a table's work.
func decodePending(table string, row bigtable.Row) Pending {
	p := Pending{Table: table, Row: row.Key()}
	for _, it := range row[notifyFamily] {
		p.addNotify(Cell{table, p.Row, strings.TrimPrefix(it.Column, notifyFamily+":")}, it)
	}
	for _, it := range row[lockFamily] {
		cell := Cell{table, p.Row, strings.TrimPrefix(it.Column, lockFamily+":")}
		if l, err := decodeLock(it.Timestamp, it.Value); err == nil {
			p.Locks = append(p.Locks, l.export(cell))
		} else {
			p.Corrupt = append(p.Corrupt, cell)
		}
	}
	slices.SortFunc(p.Notified, func(a, b Notification) int { return compareCells(a.Cell, b.Cell) })
	slices.SortFunc(p.Locks, func(a, b Lock) int { return compareCells(a.Cell, b.Cell) })
	slices.SortFunc(p.Standings, func(a, b Standing) int {
		return cmp.Or(compareCells(a.Cell, b.Cell), cmp.Compare(a.Observer, b.Observer))
	})
	return p
}

// addNotify takes in a cell of the notify family.
func (p *Pending) addNotify(cell Cell, it bigtable.ReadItem) {
	ts, err := fromCell(it.Timestamp)
	if err != nil {
		p.Corrupt = append(p.Corrupt, cell)
		return
	}
	column, observer, done, ok := standingColumn(cell.Column)
	if !ok {
		p.Notified = append(p.Notified, Notification{cell, ts})
		return
	}
	s := Standing{Cell: Cell{cell.Table, cell.Row, column}, Observer: observer, Through: ts, Done: done}
	if err := s.decode(it.Value); err != nil { // the observer is tried again
		p.Corrupt = append(p.Corrupt, cell)
		return
	}
	p.Standings = append(p.Standings, s)
}
