package reads

import (
	"context"
	"fmt"
	"iter"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/tso"
)

// ScanPending streams, in row order, the rows of table in r that carry notify or lock cells. It reads only these two
// families, which hold nothing of clean rows (section 2.4 of the paper). A crash between the commit point and a secondary
// leaves an observed cell locked and without its notify cell, so both are needed to find all work.
func (c *Reader) ScanPending(ctx context.Context, table string, r model.Range) iter.Seq2[layout.Pending, error] {
	return func(yield func(layout.Pending, error) bool) {
		if _, ok := c.meta.Catalog.Load().UserTable(table); !ok {
			yield(layout.Pending{}, model.UnknownTable(table))
			return
		}
		for !r.Empty() {
			page, more, err := c.ReadPending(ctx, table, r, MaxPendingRows)
			if err != nil {
				yield(layout.Pending{}, err)
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
func (c *Reader) WrittenSince(ctx context.Context, table string, ts tso.Timestamp) (bool, error) {
	if _, ok := c.meta.Catalog.Load().UserTable(table); !ok {
		return false, model.UnknownTable(table)
	}
	found := false
	err := c.store.ReadRows(ctx, table, store.Rows{}, store.WrittenSince(ts), 1, func(layout.Row) bool {
		found = true
		return false
	})
	return found, err
}

// SampleRowKeys lists the end keys of the table's tablets in order, as far as Bigtable tells; the list may be empty.
func (c *Reader) SampleRowKeys(ctx context.Context, table string) ([]string, error) {
	if err := model.CheckContext(ctx); err != nil {
		return nil, err
	}
	if _, ok := c.meta.Catalog.Load().UserTable(table); !ok {
		return nil, model.UnknownTable(table)
	}
	return c.store.SampleKeys(ctx, table)
}

// Notified reports whether a cell carries a notification, observed or weak. Concurrent calls for cells of one column travel together. Errors:
// ErrSchemaMismatch (unknown table), ErrInvalidArgument (names), and those of the store.
func (c *Reader) Notified(ctx context.Context, cell model.Cell) (bool, error) {
	if err := model.CheckContext(ctx); err != nil {
		return false, err
	}
	if err := c.meta.CheckReadable(cell); err != nil {
		return false, err
	}
	a, err := c.fetchOne(ctx, rowQuery{table: cell.Table, columns: []string{cell.Column}, window: 1, notify: true}, cell.Row)
	return a.notified, err
}

// MaxPendingRows is how many rows ReadPending reads at once.
const MaxPendingRows = 1024

// ReadPending reads, with one request and in row order, at most most rows of table in r that carry notify or lock cells (section 2.4 of
// the paper); more: there may be others behind them. ErrInvalidArgument: most is not between 1 and MaxPendingRows.
func (c *Reader) ReadPending(ctx context.Context, table string, r model.Range, most int) (rows []layout.Pending, more bool, err error) {
	if most < 1 || most > MaxPendingRows {
		return nil, false, fmt.Errorf("percolator: %w: %d rows, not 1 to %d", model.ErrInvalidArgument, most, MaxPendingRows)
	}
	if _, ok := c.meta.Catalog.Load().UserTable(table); !ok {
		return nil, false, model.UnknownTable(table)
	}
	if r.Empty() {
		return nil, false, nil
	}
	err = c.store.ReadRows(ctx, table, store.In(r), store.Pending(), most, func(row layout.Row) bool {
		rows = append(rows, layout.DecodePending(table, row))
		return true
	})
	if err != nil {
		return nil, false, err
	}
	return rows, len(rows) == most, nil
}
