package admin

import (
	"context"
	"fmt"
	"iter"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// ListLocks streams, by table and row, the locks in range r of a table, each with the status of its
// transaction. table may be that of an index; "" stands for all tables and indexes. It finds locks
// by the journal, as ListPending does, unless opts.Scan is set. It reads the primaries of what it
// finds and changes nothing: ResolveLock resolves LockInspection.Lock. A lock is judged shortly
// after it was read, and may be gone when it is returned.
//
// Errors: those of ListPending and of the oracle, ErrInvalidArgument for a negative age. Locks that
// cannot be decoded are listed, not errors.
func (a *Admin) ListLocks(ctx context.Context, table string, r percolator.Range, opts LockOptions) iter.Seq2[LockInspection, error] {
	ctx = store.InBackground(ctx)
	return func(yield func(LockInspection, error) bool) {
		filter, err := a.locksFor(ctx, opts)
		if err != nil {
			yield(LockInspection{}, err)
			return
		}
		store.Each(a.unfinished(ctx, table, r, opts.PendingOptions, filter), func(page journal.NamedPage) ([]LockInspection, error) {
			return a.inspectLocks(ctx, page.Table, page.Rows)
		})(yield)
	}
}

// locksFor is the query for the locks that opts asks for.
func (a *Admin) locksFor(ctx context.Context, opts LockOptions) (store.Query, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return store.Query{}, err
	}
	if opts.OlderThan < 0 {
		return store.Query{}, fmt.Errorf("percolator: %w: LockOptions.OlderThan is negative", model.ErrInvalidArgument)
	}
	if opts.OlderThan == 0 {
		return store.AllLocks(), nil
	}
	now, err := a.e.Clock.Next(ctx)
	return store.Locks(now.Add(-opts.OlderThan)), err
}

// inspectLocks judges the locks in rows.
func (a *Admin) inspectLocks(ctx context.Context, table string, rows []layout.Row) (page []LockInspection, err error) {
	var locks []layout.LockRecord
	var at []int // where in page
	for _, row := range rows {
		for _, item := range row.Of(layout.LockFamily) {
			cell := model.Cell{Table: table, Row: row.Key, Column: item.Column}
			l, err := layout.DecodeLock(item.Timestamp, item.Value)
			if err == nil {
				locks, at = append(locks, l), append(at, len(page))
			}
			page = append(page, undecodableLock(cell, item.Timestamp, err))
		}
	}
	if len(locks) == 0 {
		return page, nil
	}
	j, err := a.judge(ctx, locks)
	if err != nil {
		return nil, err
	}
	for i, l := range locks {
		page[at[i]] = j.inspect(page[at[i]].Cell, l)
	}
	return page, nil
}

// undecodableLock is what is known of a lock that cannot be decoded.
func undecodableLock(cell model.Cell, ts int64, err error) LockInspection {
	out := LockInspection{Lock: model.Lock{Cell: cell}, State: LockStateUndecodable}
	if err != nil {
		out.Reason = err.Error()
	}
	if start, err := layout.FromCell(ts); err == nil {
		out.StartTS = start
	}
	return out
}
