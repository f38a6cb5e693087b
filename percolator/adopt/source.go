package adopt

import (
	"context"
	"fmt"
	"iter"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
)

// pageRows is how many rows of the plain table one request reads.
const pageRows = 1000

// pageTime bounds a request for a page.
const pageTime = time.Minute

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
			for page := range ahead(ctx, func(ctx context.Context, after string) (plainPage, error) { return t.page(ctx, plain, after, at) }, start) {
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

// page reads the rows of plain from a key on.
func (t *table) page(ctx context.Context, plain *bigtable.Table, start string, at time.Time) (plainPage, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	var p plainPage
	err := plain.ReadRows(ctx, bigtable.InfiniteRange(start), func(r bigtable.Row) bool {
		row, err := t.row(r)
		p.rows = append(p.rows, plainRow{row, err})
		p.next = r.Key() + "\x00"
		return true
	}, bigtable.RowFilter(t.filter(at)), bigtable.LimitRows(pageRows))
	if err != nil {
		return p, fmt.Errorf("adopt: reading the plain table from row %q on: %w", start, err)
	}
	p.more = len(p.rows) == pageRows
	return p, nil
}

// ahead yields pages, of which the next one is read while one is used.
func ahead(ctx context.Context, read func(ctx context.Context, start string) (plainPage, error), start string) iter.Seq[plainPage] {
	return func(yield func(plainPage) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pages := make(chan plainPage)
		go func() {
			defer close(pages)
			for more := true; more; {
				p, err := read(ctx, start)
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
