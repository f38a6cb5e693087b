package percolator

import (
	"context"
	"strings"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// rowQuery is what is asked about rows of a table.
type rowQuery struct {
	table   string
	columns []string      // sorted
	ts      tso.Timestamp // 0: no bound
	window  int           // versions of each family
	whole   bool          // all columns, if the row is narrow (wholerow.go)
}

func (q rowQuery) filter() bigtable.Filter {
	if q.whole {
		return wholeRowFilter(q.ts, q.window)
	}
	return snapshotFilter(q.columns, q.ts, q.window)
}

// byName is the query for a row that is too wide to be read whole.
func (q rowQuery) byName() rowQuery {
	q.whole = false
	return q
}

// kind names the queries that may travel in one request, apart from their timestamps.
func (q rowQuery) kind() queryKind {
	if q.whole {
		return queryKind{table: q.table, whole: true}
	}
	return queryKind{table: q.table, columns: strings.Join(q.columns, "\x00")}
}

type queryKind struct {
	table, columns string
	whole          bool
}

// rowAnswer is what a request says about a row.
type rowAnswer struct {
	row    Cell // without a column
	seen   rowVersions
	window int  // versions of each family that were asked for
	whole  bool // of all columns
	cut    bool // the row was cut off: nothing is known
}

// answer is what q learns from a row; a missing row is nil.
func (c *Client) answer(q rowQuery, r bigtable.Row) rowAnswer {
	a := rowAnswer{window: q.window, whole: q.whole}
	if q.whole {
		var wide bool
		if a.cut, wide = look(r, q.window, q.columns); wide {
			c.habits.of(q.table).wide()
		}
	}
	if !a.cut {
		a.seen = decodeRow(q.table, r)
	}
	return a
}

// readOne reads one row; one that was cut off is read again by name.
func (c *Client) readOne(ctx context.Context, q rowQuery, row string) (rowAnswer, error) {
	r, err := c.store.readRow(ctx, q.table, row, q.filter())
	if err != nil {
		return rowAnswer{}, err
	}
	if a := c.answer(q, r); !a.cut {
		return a, nil
	}
	return c.readOne(ctx, q.byName(), row)
}

// readMany reads rows with one request; the answers are in their order.
func (c *Client) readMany(ctx context.Context, q rowQuery, rows []string) ([]rowAnswer, error) {
	found := make(map[string]rowAnswer, len(rows))
	err := c.store.readRows(ctx, q.table, bigtable.RowList(rows), func(r bigtable.Row) bool {
		found[r.Key()] = c.answer(q, r)
		return true
	}, bigtable.RowFilter(q.filter()))
	if err != nil {
		return nil, err
	}
	out := make([]rowAnswer, len(rows))
	for i, row := range rows {
		a, ok := found[row]
		if !ok {
			a = c.answer(q, nil)
		}
		out[i] = a
	}
	return out, nil
}
