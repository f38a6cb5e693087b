package reads

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A scan reads pages of rows with the filter of a read, and finishes each cell as a read does: it
// waits for locks or resolves them and reads only that cell again, so it never loses its position.
// It reads a page to its end before it hands out the first entry: the consumer may take its time,
// or write to the table that it scans, or drop it, which the next page tells. It is a pass (package
// store): where few rows have the columns, it lasts as long as its context.

// ScanPages is how a scan reads. The first page is small and the next ones grow, so a scan that the
// consumer breaks off early has cost little.
var ScanPages = store.PageSize{First: 64, Rows: 4096, Bytes: 4 << 20}

// Rows is a stream of rows with their entries, each of which has one at least.
type Rows = iter.Seq2[[]model.Entry, error]

// Scan streams the entries of a range.
func (s *Snapshot) Scan(ctx context.Context, table string, r model.Range, columns ...string) iter.Seq2[model.Entry, error] {
	return s.ScanWith(ctx, table, model.ScanOptions{Rows: []model.Range{r}, Columns: columns})
}

// ScanWith streams the entries that the options select.
func (s *Snapshot) ScanWith(ctx context.Context, table string, o model.ScanOptions) iter.Seq2[model.Entry, error] {
	if o.Index != "" {
		return s.ScanIndex(ctx, table, o)
	}
	return Entries(s.ScanRows(ctx, table, o), o.Limit)
}

// Entries streams the entries of rows, of so many rows at most (0: all). When it has these it asks
// for no more.
func Entries(rows Rows, limit int) iter.Seq2[model.Entry, error] {
	return func(yield func(model.Entry, error) bool) {
		n := 0
		for row, err := range rows {
			if err != nil {
				yield(model.Entry{}, err)
				return
			}
			for _, e := range row {
				if !yield(e, nil) {
					return
				}
			}
			if n++; n == limit {
				return
			}
		}
	}
}

// ScanRows is ScanWith by rows, and goes on beyond the limit if it is asked for more.
func (s *Snapshot) ScanRows(ctx context.Context, table string, o model.ScanOptions) Rows {
	of := s.reader.meta.Incarnation(table)
	if err := errors.Join(s.reader.meta.CheckColumns(table, o.Columns), CheckLimit(table, o.Limit)); err != nil {
		return Failed[[]model.Entry](err)
	}
	size := 0
	for _, col := range o.Columns {
		size += store.PatternBytes(col)
	}
	if len(o.ColumnRanges) > 0 {
		return s.scanColumnRanges(ctx, of, o)
	}
	if size > model.MaxFilterBytes {
		return Failed[[]model.Entry](fmt.Errorf("percolator: scan of table %q: %w: the names of %d columns are more than a filter holds; name fewer, or none", table, model.ErrTooLarge, len(o.Columns)))
	}
	return s.reader.scan(ctx, s.ts, of, selected(o), store.Newest(slices.Clone(o.Columns), s.ts, 1), o.Limit)
}

// selected is the rows of a scan in their order.
func selected(o model.ScanOptions) store.Rows {
	return store.Rows{Ranges: SelectedRows(o), Reverse: o.Reverse}
}

// usersColumns are the columns that are not this module's own.
var usersColumns = model.Between(model.Prefix(layout.Reserved).End, "")

// scanColumnRanges is ScanRows for ranges of columns, which named columns join.
func (s *Snapshot) scanColumnRanges(ctx context.Context, of meta.Incarnation, o model.ScanOptions) Rows {
	columns := SelectedColumns(o).Within(usersColumns)
	size := 0
	for _, r := range columns {
		size += store.RangeBytes(r)
	}
	switch {
	case len(columns) > model.MaxColumnRanges:
		return Failed[[]model.Entry](fmt.Errorf("percolator: scan of table %q: %w: %d ranges of columns, the limit is %d", of.Table, model.ErrTooLarge, len(columns), model.MaxColumnRanges))
	case size > model.MaxFilterBytes:
		return Failed[[]model.Entry](fmt.Errorf("percolator: scan of table %q: %w: the bounds of %d ranges of columns are more than a filter holds; name fewer, or shorter ones", of.Table, model.ErrTooLarge, len(columns)))
	case len(columns) == 0: // not all of them
		return func(func([]model.Entry, error) bool) {}
	}
	return s.reader.scan(ctx, s.ts, of, selected(o), store.NewestIn(columns, s.ts, 1), o.Limit)
}

// Failed is a stream of one error.
func Failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

// scan streams what a query finds in rows, of which the consumer probably takes so many (0: all of
// them). It also serves the tables of indexes.
func (r *Reader) scan(ctx context.Context, ts tso.Timestamp, of meta.Incarnation, rows store.Rows, q store.Query, limit int) Rows {
	return func(yield func([]model.Entry, error) bool) {
		pass := r.store.NewPassOver(of.Table, rows, q, ScanPages)
		defer pass.Close()
		read, found := 0, 0
		for more := len(rows.Ranges) > 0; more; {
			if limit > 0 {
				pass.Ask(missing(limit, read, found))
			}
			var page []*PageRow
			var err error
			if page, more, err = r.scanPage(ctx, ts, of, Scanned{rows.Ranges, q.AllColumns()}, pass); err != nil {
				yield(nil, err)
				return
			}
			for _, row := range page {
				if len(row.Entries) == 0 {
					continue
				}
				if found++; !yield(row.Entries, nil) {
					return
				}
			}
			read += len(page)
		}
	}
}

// missing is how many rows a scan with a limit reads next: as many as it lacks, or as many as were
// read in vain, whatever is more. These have no entry, having been deleted say; after as many as
// the limit, the consumer has taken none. So where few rows are of use, pages grow.
func missing(limit, read, found int) int {
	if found >= limit {
		found = 0
	}
	return max(limit-found, read-found)
}

// scanPage reads a page and finishes it.
func (r *Reader) scanPage(ctx context.Context, ts tso.Timestamp, of meta.Incarnation, scan Scanned, pass *store.Pass) (rows []*PageRow, more bool, err error) {
	ctx, span := r.store.Trace.Start(ctx, "percolator.scan", of.Table)
	started := time.Now()
	page, err := pass.Next(ctx)
	span.Count("percolator.rows", len(page.Rows))
	rows = SeenIn(of.Table, page)
	if err == nil {
		err = r.FinishPage(ctx, ts, of.Table, scan, rows)
	}
	if err == nil {
		err = r.meta.CheckReadOf(ctx, ts, of)
	}
	r.tookRead(ctx, telemetry.OpScan, of.Table, started, err)
	span.End(err)
	return rows, page.More, err
}

// PageRow is one row of a page: what the request saw, and the entries that it means.
type PageRow struct {
	Key     string
	Seen    layout.RowVersions
	Cells   []CellResult // by column, without this module's own
	Entries []model.Entry
}

// SeenIn decodes the rows of a page.
func SeenIn(table string, page store.Page) []*PageRow {
	return ordered.Map(page.Rows, func(row layout.Row) *PageRow { return &PageRow{Key: row.Key, Seen: layout.DecodeRow(table, row)} })
}

// FinishPage turns what was seen into entries, in row and column order. It leaves out this module's
// own columns.
func (r *Reader) FinishPage(ctx context.Context, ts tso.Timestamp, table string, scan Scanned, page []*PageRow) error {
	if err := r.FinishRows(ctx, ts, table, scan, page); err != nil {
		return err
	}
	for _, row := range page {
		for _, res := range row.Cells {
			if res.Value != nil {
				row.Entries = append(row.Entries, model.Entry{Cell: res.Cell, Value: res.Value, CommitTS: res.Record.CommitTS, Expires: res.Record.Expires})
			}
		}
		row.Seen, row.Cells = nil, nil
	}
	return nil
}

// FinishRows turns what was seen of a page into cells.
func (r *Reader) FinishRows(ctx context.Context, ts tso.Timestamp, table string, scan Scanned, page []*PageRow) error {
	u := r.unfinished(ts, table, scan, len(page))
	u.whole = true
	return u.finishRows(ctx, page)
}

// FinishEach is FinishRows that leaves the error of a cell which cannot be decoded with it.
func (r *Reader) FinishEach(ctx context.Context, ts tso.Timestamp, table string, scan Scanned, page []*PageRow) error {
	return r.unfinished(ts, table, scan, len(page)).finishRows(ctx, page)
}

func (u *unfinished) finishRows(ctx context.Context, page []*PageRow) error {
	for _, row := range page {
		u.addRow(row)
	}
	return u.finish(ctx)
}
