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

// ScanPending streams, in row order, the rows of a table that carry notify or lock cells. The answer
// holds nothing of clean rows (section 2.4 of the paper), but Bigtable passes over all of them. A crash
// between the commit point and a secondary leaves an observed cell locked and without its notify
// cell, so finding all work takes both.
func (r *Reader) ScanPending(ctx context.Context, table string, keys model.Range) iter.Seq2[layout.Pending, error] {
	return func(yield func(layout.Pending, error) bool) {
		if err := r.meta.CheckTable(table); err != nil {
			yield(layout.Pending{}, err)
			return
		}
		for !model.EmptyRange(keys) {
			page, more, err := r.ReadPending(ctx, table, keys, MaxPendingRows)
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
			keys.Start = page[len(page)-1].Row + "\x00"
		}
	}
}

// WrittenSince reports whether any transaction has committed a write to the table at or after ts.
// It reads the write family of the whole table until it finds one, so it is for tools and for the
// end of a wait.
func (r *Reader) WrittenSince(ctx context.Context, table string, ts tso.Timestamp) (bool, error) {
	if err := r.meta.CheckTable(table); err != nil {
		return false, err
	}
	found := false
	err := r.store.ReadRows(ctx, table, store.Rows{}, store.WrittenSince(ts), 1, func(layout.Row) bool {
		found = true
		return false
	})
	return found, err
}

// SampleRowKeys lists the end keys of the table's tablets in order, as far as Bigtable tells. The
// list may be empty.
func (r *Reader) SampleRowKeys(ctx context.Context, table string) ([]string, error) {
	if err := model.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := r.meta.CheckTable(table); err != nil {
		return nil, err
	}
	return r.store.SampleKeys(ctx, table)
}

// Notified reports whether a cell carries a notification, observed or weak. Concurrent calls for
// cells of one column travel together. Errors: ErrSchemaMismatch (unknown table),
// ErrInvalidArgument (names), and those of the store.
func (r *Reader) Notified(ctx context.Context, cell model.Cell) (bool, error) {
	if err := model.CheckContext(ctx); err != nil {
		return false, err
	}
	if err := r.meta.CheckReadable(cell); err != nil {
		return false, err
	}
	a, err := r.fetchOne(ctx, rowQuery{table: cell.Table, columns: []string{cell.Column}, window: 1, notify: true}, cell.Row)
	return a.notified, err
}

// MaxPendingRows is how many rows ReadPending reads at once.
const MaxPendingRows = 1024

// ReadPending reads, with one request and in row order, at most most rows that carry notify or lock
// cells (section 2.4 of the paper). more: others may follow. ErrInvalidArgument: most is not
// between 1 and MaxPendingRows.
func (r *Reader) ReadPending(ctx context.Context, table string, keys model.Range, most int) (rows []layout.Pending, more bool, err error) {
	if most < 1 || most > MaxPendingRows {
		return nil, false, fmt.Errorf("percolator: %w: %d rows, not 1 to %d", model.ErrInvalidArgument, most, MaxPendingRows)
	}
	if err := r.meta.CheckTable(table); err != nil {
		return nil, false, err
	}
	if model.EmptyRange(keys) {
		return nil, false, nil
	}
	err = r.store.ReadRows(ctx, table, store.In(keys), store.Pending(), most, func(row layout.Row) bool {
		rows = append(rows, layout.DecodePending(table, row))
		return true
	})
	if err != nil {
		return nil, false, err
	}
	return rows, len(rows) == most, nil
}
