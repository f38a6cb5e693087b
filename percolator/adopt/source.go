package adopt

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
)

// A page is as many rows as come in time, and where the next one begins. The rows of a mapped
// column may lie so far apart that none comes: from the first page on that is not full in time,
// each row on the way shows that it was passed, by one cell without its value, so every page comes
// further. That costs bytes on the wire, no reads.
//
// Rejected: Bigtable names the row that a read has passed (last_scanned_row_key), but Google's
// client keeps that to itself.

// pageRows is how many rows of the plain table one request reads.
const pageRows = 1000

// pageTime bounds a request for a page.
const pageTime = time.Minute

// passed is the label of cells that only show where a read is.
const passed = "passed"

// Source reads plain as rows of a table of client, in key order, for loader.Bulk with
// BulkConfig.InUse, as programs may go on to write plain. at, unless zero, leaves out versions that
// are newer, by milliseconds: what live writers add later is for Compare. Two pages are in memory
// at once. A row that the mapping cannot translate is an error between items. ErrInvalidArgument:
// at is before 1970.
func (m *Mapping) Source(client *percolator.Client, name string, plain *bigtable.Table, at time.Time) (loader.Source[loader.Row], error) {
	t, err := m.of(client, name)
	if err != nil {
		return nil, err
	}
	if !at.IsZero() && at.Before(time.Unix(0, 0)) { // the filter takes an end of 0 for none
		return nil, fmt.Errorf("adopt: %w: a copy as of %v, before the first time that a cell can have", percolator.ErrInvalidArgument, at)
	}
	return func(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
		return func(yield func(loader.Item[loader.Row], error) bool) {
			start := ""
			if from.Token != nil {
				start = string(from.Token) + "\x00"
			}
			for page := range ahead(ctx, &plainReader{table: t, plain: plain, at: at}, start) {
				for _, row := range page.rows {
					if row.err != nil {
						if !yield(loader.Item[loader.Row]{}, row.err) {
							return
						}
						continue
					}
					if len(row.Cells) > 0 && !yield(loader.Item[loader.Row]{Value: row.ImportRow, Token: []byte(row.Row)}, nil) {
						return
					}
				}
				if page.err != nil {
					yield(loader.Item[loader.Row]{}, page.err)
					return
				}
			}
		}
	}, nil
}

// plainRow is a row of the plain table as the mapping translates it, or why it does not.
type plainRow struct {
	model.ImportRow
	err error
}

// plainPage is some rows, and where the next ones begin.
type plainPage struct {
	rows []plainRow
	next string
	more bool
	err  error
}

// plainReader reads a plain table in pages.
type plainReader struct {
	*table
	plain  *bigtable.Table
	at     time.Time
	sparse bool // a page was not full in time
}

// page reads rows from a key on.
func (r *plainReader) page(ctx context.Context, start string) (p plainPage, err error) {
	for tried := false; ; tried = true {
		asked, cancel := context.WithTimeout(ctx, pageTime)
		p, err = r.read(asked, start)
		late := asked.Err() != nil && ctx.Err() == nil
		cancel()
		r.sparse = r.sparse || late
		switch {
		case late && p.next != start:
			p.more = true
			return p, nil
		case late && !tried: // now that each row shows
		case err != nil:
			return p, fmt.Errorf("adopt: reading the plain table from row %q on: %w", start, err)
		default:
			p.more = len(p.rows) == pageRows
			return p, nil
		}
	}
}

func (r *plainReader) read(ctx context.Context, start string) (plainPage, error) {
	p := plainPage{next: start}
	filter, opts := r.filter(r.at), []bigtable.ReadOption{bigtable.LimitRows(pageRows)}
	if r.sparse {
		shown := bigtable.ChainFilters(bigtable.CellsPerRowLimitFilter(1), bigtable.StripValueFilter(), bigtable.LabelFilter(passed))
		filter, opts = bigtable.InterleaveFilters(filter, shown), nil
	}
	err := r.plain.ReadRows(ctx, bigtable.InfiniteRange(start), func(row bigtable.Row) bool {
		p.next = row.Key() + "\x00"
		if mapped(row) {
			translated, err := r.row(row)
			p.rows = append(p.rows, plainRow{translated, err})
		}
		return len(p.rows) < pageRows
	}, append(opts, bigtable.RowFilter(filter))...)
	return p, err
}

// mapped leaves out cells that only show where the read is, and reports whether there are others.
func mapped(row bigtable.Row) (others bool) {
	for family, items := range row {
		row[family] = slices.DeleteFunc(items, func(it bigtable.ReadItem) bool { return slices.Contains(it.Labels, passed) })
		others = others || len(row[family]) > 0
	}
	return others
}

// ahead yields pages, of which the next one is read while one is used.
func ahead(ctx context.Context, r *plainReader, start string) iter.Seq[plainPage] {
	return func(yield func(plainPage) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pages := make(chan plainPage)
		go func() {
			defer close(pages)
			for more := true; more; {
				p, err := r.page(ctx, start)
				p.err, more, start = err, p.more && err == nil, p.next
				select {
				case pages <- p:
				case <-ctx.Done():
					return
				}
			}
		}()
		for p := range pages {
			if !yield(p) {
				return
			}
		}
	}
}
