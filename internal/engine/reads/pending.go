package reads

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// ScanPending streams, in row order, the rows of a table that carry notify or lock cells. A crash
// between the commit point and a secondary leaves an observed cell locked and without its notify
// cell, so finding all work takes both (section 2.4 of the paper). Bigtable passes over the clean
// rows of the whole range, which takes as long as it takes.
func (r *Reader) ScanPending(ctx context.Context, table string, keys model.Range) iter.Seq2[model.Pending, error] {
	return store.Each(r.PendingPages(ctx, table, keys), func(page []model.Pending) ([]model.Pending, error) { return page, nil })
}

// PendingPages is ScanPending by pages, some of which may be empty.
func (r *Reader) PendingPages(ctx context.Context, table string, keys model.Range) iter.Seq2[[]model.Pending, error] {
	return func(yield func([]model.Pending, error) bool) {
		if err := r.meta.CheckTable(table); err != nil {
			yield(nil, err)
			return
		}
		size := store.PageSize{Rows: MaxPendingRows, Cells: pendingCells}
		pages := r.store.NewPass(table, keys, store.Pending(), size).Pages(ctx)
		pages(func(page store.Page, err error) bool { return yield(pendingIn(table, page), err) })
	}
}

func pendingIn(table string, page store.Page) []model.Pending {
	return ordered.Map(page.Rows, func(row layout.Row) model.Pending { return layout.DecodePending(table, row) })
}

// WrittenSince reports whether any transaction has committed a write to the table at or after ts.
// It passes over the whole table until it finds one, so it is for tools and for the end of a wait.
func (r *Reader) WrittenSince(ctx context.Context, table string, ts tso.Timestamp) (bool, error) {
	if err := r.meta.CheckTable(table); err != nil {
		return false, err
	}
	return r.store.HasRows(ctx, table, store.WrittenSince(ts))
}

// SampleRowKeys lists the end keys of the table's tablets in order, as far as Bigtable tells. The
// list may be empty.
func (r *Reader) SampleRowKeys(ctx context.Context, table string) ([]string, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := r.meta.CheckTable(table); err != nil {
		return nil, err
	}
	return r.store.SampleKeys(ctx, table)
}

// SampleEvenly is at most n of SampleRowKeys, evenly chosen, without empty ones and duplicates:
// what lies between them is about equally large.
func (r *Reader) SampleEvenly(ctx context.Context, table string, n int) ([]string, error) {
	keys, err := r.SampleRowKeys(ctx, table)
	return evenly(keys, n), err
}

// evenly picks at most n of the keys, which are in order, without empty ones and duplicates.
func evenly(keys []string, n int) []string {
	keys = slices.Compact(slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == "" }))
	return ordered.Evenly(keys, n)
}

// Notified reports whether a cell carries a notification, observed or weak. Errors: those of
// PendingOf.
func (r *Reader) Notified(ctx context.Context, cell model.Cell) (bool, error) {
	p, err := r.PendingOf(ctx, cell)
	return p.Notifies(cell, tso.MaxTimestamp, 1), err
}

// PendingOf reads notifications, observer states and locks of a cell's row. Concurrent calls for
// rows of one table share a request. Errors: ErrSchemaMismatch (unknown table), ErrInvalidArgument
// (names), and those of the store.
func (r *Reader) PendingOf(ctx context.Context, cell model.Cell) (model.Pending, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return model.Pending{}, err
	}
	if err := r.meta.CheckReadable(cell); err != nil {
		return model.Pending{}, err
	}
	a, err := r.fetchOne(ctx, rowQuery{table: cell.Table, asks: pending, window: 1}, cell.Row)
	return a.pending, err
}

// PendingOfAll is PendingOf for cells of one table, which are in row order without repetition. One
// request reads as many as it may name.
func (r *Reader) PendingOfAll(ctx context.Context, cells []model.Cell) ([]model.Pending, error) {
	if len(cells) == 1 {
		p, err := r.PendingOf(ctx, cells[0])
		return []model.Pending{p}, err
	}
	for _, c := range cells {
		if err := r.meta.CheckReadable(c); err != nil {
			return nil, err
		}
	}
	out := make([]model.Pending, 0, len(cells))
	for len(out) < len(cells) {
		answers, err := r.readMany(ctx, rowQuery{table: cells[0].Table, asks: pending, window: 1}, firstRows(cells[len(out):], readMost))
		if err != nil {
			return nil, err
		}
		for _, a := range answers {
			out = append(out, a.pending)
		}
	}
	return out, nil
}

// A page of pending rows ends after so many rows, or with the row that makes it so many cells.
const (
	MaxPendingRows = 1024
	pendingCells   = 16384
)

// PendingPage is some rows that carry notify or lock cells.
type PendingPage struct {
	Rows []model.Pending // in row order; there may be none
	Rest model.Range     // what was not looked at
	More bool            // whether others may be there
}

// ReadPending reads at most most rows that carry notify or lock cells from the beginning of keys
// (section 2.4 of the paper). Its request is cut off after within (0: its lifetime): the page then
// holds what was found, and Rest begins where the request had come to. ErrInvalidArgument: most is
// not between 1 and MaxPendingRows.
func (r *Reader) ReadPending(ctx context.Context, table string, keys model.Range, most int, within time.Duration) (PendingPage, error) {
	if most < 1 || most > MaxPendingRows {
		return PendingPage{}, fmt.Errorf("percolator: %w: %d rows, not 1 to %d", model.ErrInvalidArgument, most, MaxPendingRows)
	}
	if err := r.meta.CheckTable(table); err != nil {
		return PendingPage{}, err
	}
	page, err := r.store.ReadPage(ctx, table, keys, store.Pending(), store.PageSize{Rows: most, Cells: pendingCells, Time: within})
	return PendingPage{pendingIn(table, page), page.Rest, page.More}, err
}
