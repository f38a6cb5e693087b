package percolator

import (
	"context"
	"iter"
	"slices"
)

// A batch of rows that an index lists begins small, for a reader that wants only the first, and
// grows as long as its values stay below what a page of a scan holds.
const (
	firstListed    = 16
	mostListed     = 512 // rows that one request names
	maxListedBytes = 4 << 20
)

// GetByIndex is ScanIndex for one value, the bytes that the column stores: []byte(s) of a string;
// ScanIndex with Column.Exactly is for other types. A unique index lists one row at most.
func (r Rows[T]) GetByIndex(ctx context.Context, from Reader, index string, value []byte) iter.Seq2[T, error] {
	return r.ScanIndex(ctx, from, index, Exactly(value))
}

// ScanIndex streams the rows whose value in the indexed column lies in values, in the order of the
// values, then of the keys. Column.Exactly and Column.Between make ranges of typed values. T need
// not have the indexed column; a row without a value in any column of T is left out.
//
// It reads a page of the index, as Reader.ScanIndex does, and the rows that it lists in batches,
// each with one request: 16 rows, then twice as many each time, up to 512 or some 4 MiB of values.
// So 1,000 small rows cost 6 requests, and those for the index. It holds one batch in memory,
// beside the page. A batch is read before its first row is handed out: what the caller writes from
// there on shows in later batches only. All rows of a batch count as read, for Put and for
// LockReads.
//
// An error ends the stream: those of Reader.ScanIndex and of GetMulti.
func (r Rows[T]) ScanIndex(ctx context.Context, from Reader, index string, values Range) iter.Seq2[T, error] {
	return r.listed(ctx, from, 0, from.ScanIndex(ctx, r.table, index, values))
}

// toLimit is ScanIndex with a direction and a limit. An index over none of T's columns may have
// entries of rows that are left out, which the limit does not count.
func (r Rows[T]) toLimit(ctx context.Context, from Scanner, o ScanOptions) iter.Seq2[T, error] {
	limit := o.Limit
	if limit > 0 && !slices.ContainsFunc(r.names(), func(column string) bool {
		return checkIndex(from, Cell{Table: r.table, Column: column}, o.Index) == nil
	}) {
		o.Limit = 0
	}
	return r.listed(ctx, from, limit, from.ScanWith(ctx, r.table, o))
}

// listed reads the rows that the entries of an index name, to a limit; 0: all.
func (r Rows[T]) listed(ctx context.Context, from Reader, limit int, entries iter.Seq2[Entry, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		keys, room, more, left := []string(nil), firstListed, true, limit
		give := func() bool {
			bytes, err := r.eachOf(ctx, from, keys, func(_ string, row T) bool {
				left--
				more = yield(row, nil) && left != 0
				return more
			})
			if err != nil {
				more = false
				yield(none, err)
			}
			room = min(2*room, mostListed, 1+len(keys)*maxListedBytes/(bytes+1))
			keys = keys[:0]
			return more
		}
		for e, err := range entries {
			if err != nil {
				yield(none, err)
				return
			}
			if keys = append(keys, e.Cell.Row); len(keys) >= room && !give() {
				return
			}
		}
		if len(keys) > 0 {
			give()
		}
	}
}
