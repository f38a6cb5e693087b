package admin

import (
	"context"
	"fmt"
	"iter"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
)

// A page of ListLocks ends after so many rows, or after the row with which there are so many locks.
const (
	listLockRows  = 512
	listLockCells = 4096
)

// ListLocks streams, in row order, the locks that stand in r of table, also the table of an index,
// with what they stand for. It reads the lock family, which holds nothing of clean rows, and the
// primaries of what it finds; it changes nothing: ResolveLock resolves LockInspection.Lock. A lock
// is judged shortly after it was read, and may be gone when it is returned.
//
// Errors: ErrSchemaMismatch for a table that is not in the schema, ErrInvalidArgument for a
// negative age, those of the store and the oracle. Locks that cannot be decoded are listed, not
// errors.
func (a *Admin) ListLocks(ctx context.Context, table string, r model.Range, opts LockOptions) iter.Seq2[LockInspection, error] {
	ctx = store.InBackground(ctx)
	return func(yield func(LockInspection, error) bool) {
		if err := a.mayList(ctx, table, opts); err != nil {
			yield(LockInspection{}, err)
			return
		}
		for !r.Empty() {
			page, more, err := a.lockPage(ctx, table, &r, opts)
			if err != nil {
				yield(LockInspection{}, err)
				return
			}
			for _, l := range page {
				if !yield(l, nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

func (a *Admin) mayList(ctx context.Context, table string, opts LockOptions) error {
	if err := model.CheckContext(ctx); err != nil {
		return err
	}
	if opts.OlderThan < 0 {
		return fmt.Errorf("percolator: %w: LockOptions.OlderThan is negative", model.ErrInvalidArgument)
	}
	if !a.e.Meta.KnowsTable(ctx, table) {
		return model.UnknownTable(table)
	}
	return nil
}

// lockPage reads and judges the next locks of r, and moves its start behind them.
func (a *Admin) lockPage(ctx context.Context, table string, r *model.Range, opts LockOptions) (page []LockInspection, more bool, err error) {
	filter := store.Locks(0)
	if opts.OlderThan > 0 {
		now, err := a.e.Clock.Next(ctx)
		if err != nil {
			return nil, false, err
		}
		filter = store.Locks(now.Add(-opts.OlderThan))
	}
	var locks []layout.LockRecord
	var at []int // where in page
	rows := 0
	err = a.e.Store.ReadRows(ctx, table, store.In(*r), filter, listLockRows, func(row layout.Row) bool {
		for _, item := range row.Of(layout.LockFamily) {
			cell := model.Cell{Table: table, Row: row.Key, Column: item.Column}
			l, err := layout.DecodeLock(item.Timestamp, item.Value)
			if err == nil {
				locks, at = append(locks, l), append(at, len(page))
			}
			page = append(page, undecodableLock(cell, item.Timestamp, err))
		}
		rows++
		r.Start = row.Key + "\x00"
		return len(page) < listLockCells
	})
	if err != nil {
		return nil, false, err
	}
	more = rows == listLockRows || len(page) >= listLockCells
	if len(locks) == 0 {
		return page, more, nil
	}
	j, err := a.judge(ctx, locks)
	if err != nil {
		return nil, false, err
	}
	for i, l := range locks {
		page[at[i]] = j.inspect(page[at[i]].Cell, l)
	}
	return page, more, nil
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
