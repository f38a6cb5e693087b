package percolator

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// A scan reads pages of rows with the filter of a read, and settles each cell as a read does: locks are waited for or
// resolved and only the cell is read again, so the position is never lost. Pages are read to their end before they are
// handed out: the consumer may take its time, or write to the table that it scans. The first page is small and the next ones
// grow, so that a scan that is broken off early has cost little.
const (
	scanFirstRows = 64
	scanMaxRows   = 4096
	scanPageBytes = 4 << 20
)

// Scan streams the entries of the named columns (all if none) whose rows lie in r, in row order, then column order. An error
// ends the stream. Memory: one page, at most 4096 rows or, beyond its first row, about 4 MiB of values.
func (s *Snapshot) Scan(ctx context.Context, table string, r Range, columns ...string) iter.Seq2[Entry, error] {
	if _, ok := s.c.catalog.Load().user(table); !ok {
		return failed(unknownTable(table))
	}
	size := 0
	for _, col := range columns {
		if err := validateColumn(Cell{Table: table, Column: col}); err != nil {
			return failed(err)
		}
		size += patternBytes(col)
	}
	if size > maxFilterBytes {
		return failed(fmt.Errorf("percolator: scan of table %q: %w: the names of %d columns are more than a filter holds; name fewer, or none", table, ErrTooLarge, len(columns)))
	}
	return s.c.scan(ctx, s.ts, table, r, columns)
}

func failed(err error) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { yield(Entry{}, err) }
}

// scan is Scan without the checks of names; it serves the tables of indexes, too.
func (c *Client) scan(ctx context.Context, ts tso.Timestamp, table string, r Range, columns []string) iter.Seq2[Entry, error] {
	filter := snapshotFilter(columns, ts, 1)
	return func(yield func(Entry, error) bool) {
		limit := scanFirstRows
		if r.empty() {
			return
		}
		for {
			if c.closed.Load() {
				yield(Entry{}, fmt.Errorf("percolator: %w", ErrClosed))
				return
			}
			page, more, err := c.scanPage(ctx, ts, table, r, filter, limit)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, row := range page {
				for _, e := range row.entries {
					if !yield(e, nil) {
						return
					}
				}
			}
			if !more {
				return
			}
			if r.Start = page[len(page)-1].key + "\x00"; r.empty() {
				return
			}
			limit = min(2*limit, scanMaxRows)
		}
	}
}

// scanPage reads a page and settles it.
func (c *Client) scanPage(ctx context.Context, ts tso.Timestamp, table string, r Range, filter bigtable.Filter, limit int) (page []*pageRow, more bool, err error) {
	ctx, span := c.trace.start(ctx, "percolator.scan", table)
	begun := time.Now()
	page, more, err = c.readPage(ctx, table, r, filter, limit)
	span.count("percolator.rows", len(page))
	if err == nil {
		err = c.settlePage(ctx, ts, table, page)
	}
	if err == nil {
		err = c.meta.checkRead(ctx, ts)
	}
	c.tookRead(ctx, opScan, table, begun, err)
	span.end(err)
	return page, more, err
}

// pageRow is one row of a page: what was seen, and what it means.
type pageRow struct {
	key     string
	seen    rowVersions
	entries []Entry
}

// readPage reads up to limit rows from the beginning of r; more says that there may be others behind them.
func (c *Client) readPage(ctx context.Context, table string, r Range, filter bigtable.Filter, limit int) (page []*pageRow, more bool, err error) {
	size := 0
	err = c.store.readRows(ctx, table, rowSet(r), func(row bigtable.Row) bool {
		page = append(page, &pageRow{key: row.Key(), seen: decodeRow(table, row)})
		for _, items := range row {
			for _, it := range items {
				size += len(it.Value)
			}
		}
		return size < scanPageBytes
	}, bigtable.RowFilter(filter), bigtable.LimitRows(int64(limit)))
	more = len(page) == limit || size >= scanPageBytes
	return page, more, err
}

func rowSet(r Range) bigtable.RowSet {
	if r.End == "" {
		return bigtable.InfiniteRange(r.Start)
	}
	return bigtable.NewRange(r.Start, r.End)
}

// settlePage turns what was seen into entries, in row and column order. Our own columns are left out.
func (c *Client) settlePage(ctx context.Context, ts tso.Timestamp, table string, page []*pageRow) error {
	for _, row := range page {
		for _, col := range row.seen.columns() {
			if strings.HasPrefix(col, reserved) {
				continue
			}
			cell := Cell{table, row.key, col}
			res, err := c.settleRead(ctx, ts, cell, row.seen[col], 1, true)
			if err != nil {
				return err
			}
			if res.value != nil {
				row.entries = append(row.entries, Entry{Cell: cell, Value: res.value, CommitTS: res.record.commitTS})
			}
		}
		row.seen = nil
	}
	return nil
}

func compareCells(a, b Cell) int {
	return cmp.Or(strings.Compare(a.Table, b.Table), strings.Compare(a.Row, b.Row), strings.Compare(a.Column, b.Column))
}

// mergeOwn lays a transaction's own writes, in order, over a stream of entries of one table.
func mergeOwn(stream iter.Seq2[Entry, error], own []write) iter.Seq2[Entry, error] {
	if len(own) == 0 {
		return stream
	}
	return func(yield func(Entry, error) bool) {
		rest := own
		// before hands out own puts that come before cell; false: the consumer has had enough.
		before := func(cell *Cell) bool {
			for len(rest) > 0 && (cell == nil || compareCells(rest[0].cell, *cell) < 0) {
				w := rest[0]
				rest = rest[1:]
				if w.kind == kindPut && !yield(Entry{Cell: w.cell, Value: slices.Clone(w.value)}, nil) {
					return false
				}
			}
			return true
		}
		for e, err := range stream {
			if err != nil {
				yield(e, err)
				return
			}
			if !before(&e.Cell) {
				return
			}
			if len(rest) > 0 && rest[0].cell == e.Cell {
				continue // replaced or deleted; before hands it out
			}
			if !yield(e, nil) {
				return
			}
		}
		before(nil)
	}
}
