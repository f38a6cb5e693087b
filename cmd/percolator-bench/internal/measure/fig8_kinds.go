package measure

import (
	"context"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
)

// fig8Kind is a comparison of the benchmark.
type fig8Kind struct {
	name, ours, raw string
	write, batching bool
	rowsPerOp       int
	sides           func() (ours, raw *fig8Side)
}

// fig8Names are the comparisons, in the order of the report.
func fig8Names() []string {
	var names []string
	for _, k := range new(fig8Lab).kinds() {
		names = append(names, k.name)
	}
	return names
}

const (
	fig8OfRow  = "ReadRow, no column named"
	fig8OfCell = "ReadRow of the column"
)

// kinds lists the comparisons.
func (l *fig8Lab) kinds() []fig8Kind {
	reads := func(name, ours string, op fig8Op, batching bool, raw string, filter bigtable.ReadOption) fig8Kind {
		return fig8Kind{name: name, ours: ours, raw: raw, batching: batching, rowsPerOp: 1, sides: func() (*fig8Side, *fig8Side) {
			client := l.client
			if !batching {
				client = l.unbatched
			}
			return l.side(client, func(ctx context.Context, w *fig8Walker) error { return op(ctx, client, w) }), l.rawSide(l.plain, l.readRow(filter))
		}}
	}
	writes := func(name, ours string, rows int, op fig8Op, raw string, rawSide func() *fig8Side) fig8Kind {
		return fig8Kind{name: name, ours: ours, raw: raw, write: true, batching: true, rowsPerOp: rows, sides: func() (*fig8Side, *fig8Side) {
			s := l.side(l.client, func(ctx context.Context, w *fig8Walker) error { return op(ctx, l.client, w) })
			s.settle = l.client.Flush
			return s, rawSide()
		}}
	}
	mutate := func() *fig8Side { return l.rawSide(l.plain, l.mutateRow) }
	serial := func() *fig8Side { return l.rawSide(l.plain, l.mutateTenInTurn) }
	atOnce := func() *fig8Side { return l.rawSide(l.plain, l.mutateTenAtOnce) }
	limit := func() *fig8Side { return l.rawSide(l.limit, l.lockAndCommit) }
	return []fig8Kind{
		reads("get", "Get from a Snapshot of many Gets, batching off", getFromSnapshot, false, fig8OfRow, fig8Latest),
		reads("get-batched", "Get from a Snapshot of many Gets", getFromSnapshot, true, fig8OfRow, fig8Latest),
		reads("get-cell", "Get from a Snapshot of many Gets, batching off", getFromSnapshot, false, fig8OfCell, fig8Named),
		reads("get-cell-batched", "Get from a Snapshot of many Gets", getFromSnapshot, true, fig8OfCell, fig8Named),
		reads("begin-get", "Begin and Get, batching off", beginAndGet, false, fig8OfRow, fig8Latest),
		reads("begin-get-batched", "Begin and Get", beginAndGet, true, fig8OfRow, fig8Latest),
		writes("write", "Begin, Set and Commit", 1, writeRows(1), "MutateRow", mutate),
		writes("write-limit", "Begin, Set and Commit", 1, writeRows(1), "two CheckAndMutateRow", limit),
		writes("blind", "Begin, Set and Commit, Blind", 1, writeRows(1, percolator.Blind()), "MutateRow", mutate),
		writes("blind-limit", "Begin, Set and Commit, Blind", 1, writeRows(1, percolator.Blind()), "two CheckAndMutateRow", limit),
		writes("rows10", "Begin, Set in 10 rows and Commit", fig8TxnRows, writeRows(fig8TxnRows), "10 MutateRow in turn", serial),
		writes("rows10-at-once", "Begin, Set in 10 rows and Commit", fig8TxnRows, writeRows(fig8TxnRows), "10 MutateRow at once", atOnce),
	}
}

func (l *fig8Lab) side(client *percolator.Client, op func(context.Context, *fig8Walker) error) *fig8Side {
	return &fig8Side{rows: l.ours, op: op, stats: client.Stats}
}

func (l *fig8Lab) rawSide(rows *fig8Rows, op func(context.Context, *fig8Walker) error) *fig8Side {
	return &fig8Side{rows: rows, op: op}
}
