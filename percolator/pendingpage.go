package percolator

import (
	"context"
	"fmt"

	"cloud.google.com/go/bigtable"
)

// MaxPendingRows is how many rows ReadPending reads at once.
const MaxPendingRows = 1024

// ReadPending reads, with one request and in row order, at most most rows of table in r that carry notify or lock cells (section 2.4 of
// the paper); more: there may be others behind them. ErrInvalidArgument: most is not between 1 and MaxPendingRows.
func (c *Client) ReadPending(ctx context.Context, table string, r Range, most int) (rows []Pending, more bool, err error) {
	if most < 1 || most > MaxPendingRows {
		return nil, false, fmt.Errorf("percolator: %w: %d rows, not 1 to %d", ErrInvalidArgument, most, MaxPendingRows)
	}
	if _, ok := c.catalog.Load().user(table); !ok {
		return nil, false, unknownTable(table)
	}
	if r.empty() {
		return nil, false, nil
	}
	filter := bigtable.ChainFilters(bigtable.InterleaveFilters(
		bigtable.ColumnRangeFilter(notifyFamily, "", ""), bigtable.ColumnRangeFilter(lockFamily, "", "")), bigtable.LatestNFilter(1))
	err = c.store.readRows(ctx, table, rowSet(r), func(row bigtable.Row) bool {
		rows = append(rows, decodePending(table, row))
		return true
	}, bigtable.RowFilter(filter), bigtable.LimitRows(int64(most)))
	if err != nil {
		return nil, false, err
	}
	return rows, len(rows) == most, nil
}
