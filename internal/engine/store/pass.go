package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
)

// Cloud Bigtable has no locality groups: a request pays for every byte that it passes over,
// whatever its query lets through, and lives at most Timing.RequestLifetime (I14). Where few rows
// match, that is too short for a page, and may be too short for a single row. So everything that
// reads a range reads it in a pass, which lasts as long as its caller's context:
//
//	progress   a request that is cut off has come as far as its last row, or as far as the server
//	           says that it has passed over; the next request begins there
//	end        PassAttempts requests in a row that came nowhere end the pass
//	ahead      once a request was cut off, the pass samples the table's keys and reads the parts
//	           between them in parallel, PassRequests at a time; it hands them out in key order
//	memory     of what it reads ahead it keeps at most PassBytes
//
// A pass whose requests all come to their end sends no other ones, and one at a time.

const (
	// PassAttempts is how many requests in a row may end without progress before a read fails.
	PassAttempts = 3
	// PassRequests is how many requests of the passes that share a budget are in flight at once.
	PassRequests = 8
	// PassBytes bounds what the passes that share a budget have read ahead: keys, columns, values,
	// and itemBytes for each cell. Each pass may exceed it by the one page that is to be handed out
	// next, and each page by its last row.
	PassBytes = 16 << 20
	partBytes = 1 << 20 // ends a page that is read ahead
	itemBytes = 64
)

// PageSize bounds a page; a limit of 0 is none. The row that reaches Cells or Bytes still belongs
// to the page.
type PageSize struct {
	Rows  int
	First int           // Rows of a pass's first page, which later ones double; 0: Rows
	Cells int           // of all versions
	Bytes int           // as PassBytes counts them
	Time  time.Duration // limit of a request; after one without progress, a lifetime
}

// Page is what one request brought.
type Page struct {
	Rows []layout.Row // in the order of the read; there may be none
	Rest model.Range  // what was not looked at; outside of it the range is done
	More bool         // whether there may be rows in Rest

	cut   bool // the request was cut off
	bytes int
}

// ReadPage reads from the beginning of r until the page is full, or its request is cut off after
// some progress: then the page may hold few rows, or none. Errors that do not pass by themselves
// end it, and so do PassAttempts requests in a row without progress.
func (s *Store) ReadPage(ctx context.Context, table string, r model.Range, q Query, size PageSize) (Page, error) {
	return s.readPageOf(ctx, table, Rows{Ranges: catalog.Union(r)}, r, q, size)
}

// readPageOf is ReadPage of those of the rows that lie in r.
func (s *Store) readPageOf(ctx context.Context, table string, rows Rows, r model.Range, q Query, size PageSize) (Page, error) {
	p := Page{Rest: r, More: len(rows.Ranges.Meeting(r)) > 0}
	if err := retry.CheckContext(ctx); err != nil || !p.More {
		return p, err
	}
	pause := retry.NewBackoff(5*time.Millisecond, time.Second)
	for attempt := 1; ; attempt++ {
		if s.Closed.Load() {
			return Page{}, fmt.Errorf("percolator: %w", model.ErrClosed)
		}
		err := s.readPage(ctx, table, rows, q, size, &p)
		switch {
		case err == nil:
			return p, nil
		case ctx.Err() != nil || !retry.Ambiguous(err) || errors.Is(err, model.ErrClosed):
			return Page{}, err
		case p.Rest != r:
			p.cut, p.More = true, len(rows.Ranges.Meeting(p.Rest)) > 0
			return p, nil
		case attempt == PassAttempts && rows.Reverse:
			return Page{}, fmt.Errorf("percolator: table %q: %d requests in a row got nowhere down from row %q: %w", table, attempt, r.End, err)
		case attempt == PassAttempts:
			return Page{}, fmt.Errorf("percolator: table %q: %d requests in a row got nowhere from row %q on: %w", table, attempt, r.Start, err)
		}
		size.Time = 0
		if perr := pause.Wait(ctx); perr != nil {
			return Page{}, fmt.Errorf("%w: %w", err, perr)
		}
	}
}

// readPage sends one request, for as many of the rows in p.Rest as it may name. It takes out of
// p.Rest what was visited or passed over.
func (s *Store) readPage(ctx context.Context, table string, rows Rows, q Query, size PageSize, p *Page) error {
	if size.Time > 0 {
		timed, cancel := context.WithTimeout(ctx, size.Time)
		defer cancel()
		ctx = timed
	}
	cells := 0
	full := func() bool {
		return size.Rows > 0 && len(p.Rows) >= size.Rows || size.Cells > 0 && cells >= size.Cells || size.Bytes > 0 && p.bytes >= size.Bytes
	}
	last, come := "", false
	behind := func(key string) {
		if !come || key > last != rows.Reverse {
			last, come = key, true
		}
	}
	left := rows.Ranges.Meeting(p.Rest)
	named := rows.nameable(left)
	more := len(named) < len(left)
	ask := Rows{Ranges: named.Within(p.Rest), Reverse: rows.Reverse}
	err := s.readRows(ctx, table, ask, q, size.Rows, behind, func(r layout.Row) bool {
		p.Rows = append(p.Rows, r)
		cells += len(r.Items)
		p.bytes += weight(r)
		behind(r.Key)
		return !full()
	})
	if come {
		p.Rest = rows.behind(p.Rest, last)
	}
	switch {
	case err != nil:
	case full():
		p.More = len(rows.Ranges.Meeting(p.Rest)) > 0
	default:
		if p.More = more; more {
			p.Rest = rows.after(p.Rest, model.Range{Start: named[0].Start, End: named[len(named)-1].End})
		}
	}
	return err
}

// weight is what a row takes in memory, roughly.
func weight(r layout.Row) int {
	n := len(r.Key)
	for _, it := range r.Items {
		n += itemBytes + len(it.Column) + len(it.Value)
	}
	return n
}

// Pass reads ranges of a table page by page, in key order or against it. One goroutine uses it.
type Pass struct {
	Budget *Budget // shared with other passes; nil: its own

	store *Store
	table string
	rows  Rows
	rest  model.Range // of the rows
	query Query
	size  PageSize
	next  int    // rows of the next page
	cut   bool   // the last request was
	ahead *ahead // nil: one request at a time
}

// NewPass begins a pass over the rows of r that q lets through. The caller closes it, or ranges
// over its Pages.
func (s *Store) NewPass(table string, r model.Range, q Query, size PageSize) *Pass {
	p := s.NewPassOver(table, Rows{Ranges: catalog.Union(r)}, q, size)
	p.rest = r
	return p
}

// NewPassOver is NewPass for rows of several ranges, in the order that rows says. The rest of a
// page is all from where the pass goes on to the end of the last range, or against that order to
// the start of the first one. One request names many ranges (RequestRows, RequestKeyBytes).
func (s *Store) NewPassOver(table string, rows Rows, q Query, size PageSize) *Pass {
	p := &Pass{store: s, table: table, rows: rows, query: q, size: size, next: size.Rows}
	if n := len(rows.Ranges); n > 0 {
		p.rest = model.Between(rows.Ranges[0].Start, rows.Ranges[n-1].End)
	}
	if size.First > 0 {
		p.next = size.First
	}
	return p
}

// Ask makes the next page end with so many rows, but no more than a page of the pass may have.
// Parts that are read ahead know no such end.
func (p *Pass) Ask(rows int) {
	if p.next = rows; p.size.Rows > 0 {
		p.next = min(rows, p.size.Rows)
	}
}

// Next returns the next page, which may hold no row and tell of progress only. After an error, or a
// page without more, the pass is done. The context of the call after a request was cut off is that
// of everything the pass reads ahead.
func (p *Pass) Next(ctx context.Context) (Page, error) {
	if p.Budget == nil {
		p.Budget = NewBudget()
	}
	if p.cut && p.ahead == nil {
		p.readAhead(ctx)
	}
	if p.ahead != nil {
		return p.ahead.next(ctx)
	}
	size := p.size
	size.Rows, p.next = p.next, min(2*p.next, p.size.Rows)
	page, err := p.read(ctx, p.rest, size)
	p.rest, p.cut = page.Rest, page.cut
	return page, err
}

// read reads a page when the budget has room for one more request.
func (p *Pass) read(ctx context.Context, r model.Range, size PageSize) (Page, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return Page{}, err
	}
	select {
	case p.Budget.requests <- struct{}{}:
	case <-ctx.Done():
		return Page{}, p.store.Err(ctx, p.table, ctx.Err())
	}
	defer func() { <-p.Budget.requests }()
	return p.store.readPageOf(ctx, p.table, p.rows, r, p.query, size)
}

// Pages ranges over what is left of the pass, and closes it. An error ends it.
func (p *Pass) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		defer p.Close()
		for more := true; more; {
			page, err := p.Next(ctx)
			more = err == nil && page.More
			if !yield(page, err) {
				return
			}
		}
	}
}

// Each streams what of makes of pages, page by page. The first error ends it.
func Each[P, T any](pages iter.Seq2[P, error], of func(P) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range pages {
			var list []T
			if err == nil {
				list, err = of(page)
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// HasRows reports whether the query lets any row of the table through.
func (s *Store) HasRows(ctx context.Context, table string, q Query) (bool, error) {
	size := PageSize{First: 1, Bytes: partBytes} // what is read ahead in single rows costs most
	for page, err := range s.NewPass(table, model.All(), q, size).Pages(ctx) {
		if err != nil || len(page.Rows) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// Close ends the requests that read ahead and waits for them.
func (p *Pass) Close() {
	if p.ahead != nil {
		p.ahead.close()
	}
}
