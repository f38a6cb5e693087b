package reads

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// rowQuery is the question that one request asks about rows of a table.
type rowQuery struct {
	table   string
	asks    asked
	columns []string      // sorted; what the caller wants, whatever is asked
	ts      tso.Timestamp // 0: no bound
	window  int           // versions of each family
	changes bool          // records of locks and rollbacks do not count
}

// asked is what of a row a request asks for.
type asked int

const (
	byName   asked = iota // the columns
	wholeRow              // all columns, if the row is narrow (wholerow.go)
	probe                 // the same for one row in a request, to find out whether rows are narrow
	pending               // only notifications and locks
)

// whole reports whether all columns are asked for.
func (a asked) whole() bool { return a == wholeRow || a == probe }

func (q rowQuery) filter() store.Query {
	var newest store.Query
	switch q.asks {
	case wholeRow, probe:
		newest = store.WholeRow(q.ts, q.window)
	case pending:
		return store.Pending()
	default:
		newest = store.Newest(q.columns, q.ts, q.window)
	}
	if q.changes {
		return newest.OnlyChanges()
	}
	return newest
}

// byName is the query for a row that is too wide to be read whole.
func (q rowQuery) byName() rowQuery {
	if q.asks.whole() {
		q.asks = byName
	}
	return q
}

// kind names the queries that may be sent together, whatever their timestamps.
func (q rowQuery) kind() queryKind {
	kind := queryKind{table: q.table, asks: q.asks}
	if q.asks == byName {
		kind.columns = strings.Join(q.columns, "\x00")
	}
	return kind
}

type queryKind struct {
	table   string
	asks    asked
	columns string // joined, if they are asked for by name
}

// rowAnswer is what a request says about a row.
type rowAnswer struct {
	row    model.Cell // without a column
	seen   layout.RowVersions
	window int  // versions of each family that were asked for
	whole  bool // of all columns
	cut    bool // the row was cut off: nothing is known

	pending model.Pending // if it was asked for
}

// answer is what q learns from a row; the zero Row is a missing one. unasked is how many bytes of
// values came with the row that q does not want.
func (r *Reader) answer(q rowQuery, row layout.Row) (a rowAnswer, unasked int) {
	if q.asks == pending {
		return rowAnswer{pending: layout.DecodePending(q.table, row)}, 0
	}
	a = rowAnswer{window: q.window, whole: q.asks.whole()}
	if q.asks.whole() {
		var wide bool
		if a.cut, wide, unasked = look(row, q.window, q.columns); wide {
			r.policy.of(q.table).wide()
		}
	}
	if !a.cut {
		a.seen = layout.DecodeRow(q.table, row)
	}
	return a, unasked
}

// readOne reads one row. If the row was cut off, or is too large to be read whole, it reads the row
// again by name.
func (r *Reader) readOne(ctx context.Context, q rowQuery, row string) (a rowAnswer, err error) {
	if q.asks == probe {
		defer func() { r.policy.of(q.table).endProbe(err == nil && a.whole) }()
	}
	found, err := r.store.ReadRow(ctx, q.table, row, q.filter())
	if err != nil {
		if again := r.byNameAfter(ctx, q, err); !again {
			return rowAnswer{}, err
		}
	} else if a, _ = r.answer(q, found); !a.cut {
		return a, nil
	}
	return r.readOne(ctx, q.byName(), row)
}

// byNameAfter ends the trial of whole rows if that may be why a read failed, and reports whether to
// try it by name.
func (r *Reader) byNameAfter(ctx context.Context, q rowQuery, err error) bool {
	if !q.asks.whole() || !TooLarge(err) {
		return false
	}
	r.policy.of(q.table).wide()
	return ctx.Err() == nil
}

// errHeavy ends a read of whole rows that brings too many bytes that the query does not want.
var errHeavy = status.Error(codes.ResourceExhausted, "whole rows are too large")

// readMany reads rows with one request and returns the answers in their order.
func (r *Reader) readMany(ctx context.Context, q rowQuery, rows []string) ([]rowAnswer, error) {
	found := make(map[string]rowAnswer, len(rows))
	sum := 0
	err := r.store.ReadRows(ctx, q.table, store.Rows{Keys: rows}, q.filter(), 0, func(row layout.Row) bool {
		a, unasked := r.answer(q, row)
		found[row.Key] = a
		sum += unasked
		return sum <= wholeReadBytes
	})
	if err == nil && sum > wholeReadBytes {
		err = errHeavy
	}
	if err != nil {
		return nil, err
	}
	out := make([]rowAnswer, len(rows))
	for i, key := range rows {
		a, ok := found[key]
		if !ok {
			a, _ = r.answer(q, layout.Row{})
		}
		out[i] = a
	}
	return out, nil
}
