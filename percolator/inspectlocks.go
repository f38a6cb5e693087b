package percolator

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"cloud.google.com/go/bigtable"
)

// A page of ListLocks ends after so many rows, or after the row with which there are so many locks.
const (
	listLockRows  = 512
	listLockCells = 4096
)

// ListLocks streams, in row order, the locks that stand in r of table, also the table of an index, with what they stand for. It reads
// the lock family, which holds nothing of clean rows, and the primaries of what it finds; it changes nothing, and settles nothing:
// ResolveLock does that with LockInspection.Lock. A lock is judged shortly after it was read, and may be gone when it is returned.
//
// Errors: ErrSchemaMismatch for a table that is not in the schema, ErrInvalidArgument for a negative age, those of the store and the
// oracle. Locks that cannot be decoded are listed, not errors.
func (c *Client) ListLocks(ctx context.Context, table string, r Range, opts LockOptions) iter.Seq2[LockInspection, error] {
	return func(yield func(LockInspection, error) bool) {
		if err := c.mayList(ctx, table, opts); err != nil {
			yield(LockInspection{}, err)
			return
		}
		for !r.empty() {
			page, more, err := c.lockPage(ctx, table, &r, opts)
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

func (c *Client) mayList(ctx context.Context, table string, opts LockOptions) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if opts.OlderThan < 0 {
		return fmt.Errorf("percolator: %w: LockOptions.OlderThan is negative", ErrInvalidArgument)
	}
	if !c.knowsTable(ctx, table) {
		return unknownTable(table)
	}
	return nil
}

// lockPage reads and judges the next locks of r, and moves its start behind them.
func (c *Client) lockPage(ctx context.Context, table string, r *Range, opts LockOptions) (page []LockInspection, more bool, err error) {
	filter := bigtable.ColumnRangeFilter(lockFamily, "", "")
	if opts.OlderThan > 0 {
		now, err := c.next(ctx)
		if err != nil {
			return nil, false, err
		}
		filter = bigtable.ChainFilters(filter, upTo(now.Add(-opts.OlderThan)))
	}
	var locks []lockRecord
	var at []int // where in page
	rows := 0
	err = c.store.readRows(ctx, table, rowSet(*r), func(row bigtable.Row) bool {
		for _, item := range row[lockFamily] {
			cell := Cell{table, row.Key(), strings.TrimPrefix(item.Column, lockFamily+":")}
			l, err := decodeLock(item.Timestamp, item.Value)
			if err == nil {
				locks, at = append(locks, l), append(at, len(page))
			}
			page = append(page, undecodableLock(cell, item.Timestamp, err))
		}
		rows++
		r.Start = row.Key() + "\x00"
		return len(page) < listLockCells
	}, bigtable.RowFilter(filter), bigtable.LimitRows(listLockRows))
	if err != nil {
		return nil, false, err
	}
	more = rows == listLockRows || len(page) >= listLockCells
	if len(locks) == 0 {
		return page, more, nil
	}
	j, err := c.judge(ctx, locks)
	if err != nil {
		return nil, false, err
	}
	for i, l := range locks {
		page[at[i]] = j.inspect(page[at[i]].Cell, l)
	}
	return page, more, nil
}

// undecodableLock is what is known of a lock that cannot be decoded.
func undecodableLock(cell Cell, ts bigtable.Timestamp, err error) LockInspection {
	out := LockInspection{Lock: Lock{Cell: cell}, State: LockStateUndecodable}
	if err != nil {
		out.Reason = err.Error()
	}
	if start, err := fromCell(ts); err == nil {
		out.StartTS = start
	}
	return out
}
