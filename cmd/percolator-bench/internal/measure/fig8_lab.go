package measure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/fill"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// The tables of the benchmark: one that transactions use, one with a single family for the raw
// client, and one with the protocol's families for the two requests that a single-cell commit
// cannot do without.
const (
	fig8Ours   = "ours"
	fig8Plain  = "raw1"
	fig8Limit  = "two2"
	fig8Column = "c"
	fig8Family = "f" // of the plain table
)

// fig8Lab is the clients and tables that all comparisons share.
type fig8Lab struct {
	*environment
	// Each with as many connections of its own as the raw client.
	client, unbatched *percolator.Client
	ours              *fig8Rows
	plain, limit      *fig8Rows
	last              atomic.Int64 // timestamp of the limit
}

// startFig8 connects and loads. Tests give further options, for all clients.
func startFig8(ctx context.Context, b *fig8Benchmark, emulator string, opts ...option.ClientOption) (l *fig8Lab, err error) {
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: fig8Ours}, {Name: fig8Limit}}}
	l = &fig8Lab{ours: newFig8Rows(b.Rows, b.Value), plain: newFig8Rows(b.Rows, b.Value), limit: newFig8Rows(b.Rows, b.Value),
		environment: startEnvironment(ctx, emulator, schema)}
	ctx, cancel := context.WithTimeout(ctx, 2*gracePeriod)
	defer cancel()
	l.createRaw(ctx, fig8Plain, fig8Family, bigtable.NoGcPolicy())
	l.client = l.environment.client(ctx, percolator.Config{}, opts...)
	l.unbatched = l.environment.client(ctx, percolator.Config{DisableBatching: true}, opts...)
	table := l.raw(ctx, opts...)
	l.ours.table, l.ours.versions, l.ours.read = table(fig8Ours), true, l.readOurs
	l.limit.table, l.limit.versions, l.limit.read = table(fig8Limit), true, l.limit.readRaw("data")
	l.plain.table, l.plain.read = table(fig8Plain), l.plain.readRaw(fig8Family)
	ts := opened(l.environment, func() (tso.Timestamp, error) { return l.oracle.Next(ctx) })
	l.last.Store(int64(ts)) // as large as those of the protocol: they are sent as varints
	if l.err == nil {
		l.err = l.load(ctx)
	}
	return l, l.orClose()
}

func fig8Cell(row string) percolator.Cell {
	return percolator.Cell{Table: fig8Ours, Row: row, Column: fig8Column}
}

func (l *fig8Lab) readOurs(ctx context.Context, keys []string) ([][]byte, error) {
	s, err := l.client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var cells []percolator.Cell
	for _, key := range keys {
		cells = append(cells, fig8Cell(key))
	}
	return s.GetMulti(ctx, cells...)
}

// load stores the first value of every row in all tables.
func (l *fig8Lab) load(ctx context.Context) error {
	start, commit := l.tick(), l.tick()
	return errors.Join(
		fill.Items(ctx, l.client, len(l.ours.keys), func(tx *percolator.Txn, row int) error {
			return tx.Set(fig8Cell(l.ours.keys[row]), l.ours.fill(nil, row, 0))
		}),
		l.plain.load(ctx, func(value []byte) *bigtable.Mutation {
			return setCell(fig8Family, fig8Column, fig8Timestamp, value)
		}),
		l.limit.load(ctx, func(value []byte) *bigtable.Mutation {
			mut := setCell("data", fig8Column, start, value)
			mut.Set("write", fig8Column, commit, fig8Record)
			return mut
		}))
}

// fig8Kind is a comparison of the benchmark.
type fig8Kind struct {
	name      string
	write     bool
	rowsPerOp int
	ours, raw fig8Side
}

const (
	fig8OfRow  = "ReadRow, no column named"
	fig8OfCell = "ReadRow of the column"
)

// kinds lists the comparisons.
func (l *fig8Lab) kinds() []fig8Kind {
	reads := func(name, ours string, client *percolator.Client, raw string, filter bigtable.ReadOption) fig8Kind {
		return fig8Kind{name: name, rowsPerOp: 1,
			ours: fig8Side{label: ours, rows: l.ours, op: getFromSnapshot(client), stats: client.Stats},
			raw:  fig8Side{label: raw, rows: l.plain, op: l.readRow(filter)}}
	}
	writes := func(name, ours string, rows int, op fig8Op, raw string, rawRows *fig8Rows, rawOp fig8Op) fig8Kind {
		return fig8Kind{name: name, write: true, rowsPerOp: rows,
			ours: fig8Side{label: ours, rows: l.ours, op: op, stats: l.client.Stats, finish: l.client.Flush},
			raw:  fig8Side{label: raw, rows: rawRows, op: rawOp}}
	}
	const snapshot, commit, commit10 = "Get from a Snapshot of many Gets", "Begin, Set and Commit", "Begin, Set in 10 rows and Commit"
	const tenInTurn = "10 MutateRow in turn"
	return []fig8Kind{
		reads("get", snapshot+", batching off", l.unbatched, fig8OfRow, fig8Latest),
		reads("get-batched", snapshot, l.client, fig8OfRow, fig8Latest),
		reads("get-cell", snapshot+", batching off", l.unbatched, fig8OfCell, fig8Named),
		reads("get-cell-batched", snapshot, l.client, fig8OfCell, fig8Named),
		{name: "get-view", rowsPerOp: 1,
			ours: fig8Side{label: "Get in a View of its own", rows: l.ours, op: getInView(l.client), stats: l.client.Stats},
			raw:  fig8Side{label: fig8OfRow, rows: l.plain, op: l.readRow(fig8Latest)}},
		{name: "multi", rowsPerOp: fig8MultiRows,
			ours: fig8Side{label: "GetMulti of 64 rows from a Snapshot of its own", rows: l.ours, op: getMulti(l.client), stats: l.client.Stats},
			raw:  fig8Side{label: "ReadRows of 64 rows, no column named", rows: l.plain, op: l.readRows}},
		writes("write", commit, 1, writeRows(l.client, 1), "MutateRow", l.plain, l.mutateRow),
		writes("write-limit", commit, 1, writeRows(l.client, 1), "two CheckAndMutateRow", l.limit, l.lockAndCommit),
		writes("blind", commit+", Blind", 1, writeRows(l.client, 1, percolator.Blind()), "MutateRow", l.plain, l.mutateRow),
		writes("rows10", commit10, fig8TxnRows, writeRows(l.client, fig8TxnRows), tenInTurn, l.plain, l.mutateTenInTurn),
		writes("rows10-blind", commit10+", Blind", fig8TxnRows, writeRows(l.client, fig8TxnRows, percolator.Blind()), tenInTurn,
			l.plain, l.mutateTenInTurn),
	}
}

const (
	// fig8SnapshotGets is for how many Gets, each of another row, a goroutine keeps its snapshot. A
	// snapshot answers a row that it has read before without asking the store, so the rows differ;
	// and goroutines have snapshots of their own, since requests at one timestamp are cheaper
	// together than at many.
	fig8SnapshotGets = 64

	// fig8MultiRows is how many rows a GetMulti reads.
	fig8MultiRows = 64

	// fig8TxnRows is how many rows the larger transactions write.
	fig8TxnRows = 10

	// fig8Timestamp is that of all raw writes: a row that got another version with each of them
	// would become slower, and flatter us.
	fig8Timestamp = bigtable.Timestamp(1000)
)

// fig8Op is an operation.
type fig8Op func(ctx context.Context, w *fig8Walker) error

// getFromSnapshot is the read of Figure 8: the start timestamp has been had in advance, for
// fig8SnapshotGets Gets.
func getFromSnapshot(c *percolator.Client) fig8Op {
	return func(ctx context.Context, w *fig8Walker) (err error) {
		if w.gets%fig8SnapshotGets == 0 {
			if w.snapshot, err = c.Snapshot(ctx); err != nil {
				return err
			}
		}
		w.gets++
		row := w.step()
		v, err := w.snapshot.Get(ctx, fig8Cell(w.rows.keys[row]))
		if err != nil {
			return err
		}
		return w.rows.check(w.values[0], row, v)
	}
}

// getInView is a Get with a timestamp of its own.
func getInView(c *percolator.Client) fig8Op {
	return func(ctx context.Context, w *fig8Walker) error {
		return c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			row := w.step()
			v, err := s.Get(ctx, fig8Cell(w.rows.keys[row]))
			if err != nil {
				return err
			}
			return w.rows.check(w.values[0], row, v)
		})
	}
}

// getMulti reads fig8MultiRows rows at a timestamp of its own.
func getMulti(c *percolator.Client) fig8Op {
	return func(ctx context.Context, w *fig8Walker) error {
		s, err := c.Snapshot(ctx)
		if err != nil {
			return err
		}
		var rows [fig8MultiRows]int
		cells := make([]percolator.Cell, len(rows))
		for i := range rows {
			rows[i] = w.step()
			cells[i] = fig8Cell(w.rows.keys[rows[i]])
		}
		found, err := s.GetMulti(ctx, cells...)
		for i := 0; i < len(rows) && err == nil; i++ {
			err = w.rows.check(w.values[0], rows[i], found[i])
		}
		return err
	}
}

// readRows reads fig8MultiRows rows in one request.
func (l *fig8Lab) readRows(ctx context.Context, w *fig8Walker) error {
	rows := map[string]int{}
	keys := make(bigtable.RowList, fig8MultiRows)
	for i := range keys {
		row := w.step()
		keys[i] = l.plain.keys[row]
		rows[keys[i]] = row
	}
	var wrong error
	err := l.plain.table.ReadRows(ctx, keys, func(r bigtable.Row) bool {
		wrong = w.rows.check(w.values[0], rows[r.Key()], r[fig8Family][0].Value)
		delete(rows, r.Key())
		return wrong == nil
	}, fig8Latest)
	if err = errors.Join(err, wrong); err == nil && len(rows) > 0 {
		err = fmt.Errorf("%d of %d rows were not found", len(rows), fig8MultiRows)
	}
	return err
}

// writeRows is a transaction that writes n rows.
func writeRows(c *percolator.Client, n int, opts ...percolator.TxnOption) fig8Op {
	return func(ctx context.Context, w *fig8Walker) error {
		tx, err := c.Begin(ctx, opts...)
		if err != nil {
			return err
		}
		var rows [fig8TxnRows]int
		for i := range n {
			rows[i] = w.step()
			if err := tx.Set(fig8Cell(w.rows.keys[rows[i]]), w.draft(i, rows[i])); err != nil {
				return err
			}
		}
		if _, err := tx.Commit(ctx); err != nil {
			return err
		}
		w.wrote(rows[:n]...)
		return nil
	}
}

// readRow is the read that ours are compared with: the newest cell of the only column.
func (l *fig8Lab) readRow(filter bigtable.ReadOption) fig8Op {
	return func(ctx context.Context, w *fig8Walker) error {
		row := w.step()
		r, err := l.plain.table.ReadRow(ctx, w.rows.keys[row], filter)
		if err != nil {
			return err
		}
		if len(r[fig8Family]) != 1 {
			return fmt.Errorf("row %s has %d cells", w.rows.keys[row], len(r[fig8Family]))
		}
		return w.rows.check(w.values[0], row, r[fig8Family][0].Value)
	}
}

// A Get asks for one column, whatever else the row holds. fig8Named asks Bigtable for the same;
// fig8Latest is the cheapest read there is, and answers the same only because these rows hold
// nothing else.
var (
	fig8Latest = bigtable.RowFilter(bigtable.LatestNFilter(1))
	fig8Named  = bigtable.RowFilter(bigtable.ChainFilters(bigtable.FamilyFilter(fig8Family), bigtable.ColumnFilter(fig8Column),
		bigtable.LatestNFilter(1)))
)

func (l *fig8Lab) mutateRow(ctx context.Context, w *fig8Walker) error {
	row := w.step()
	mut := setCell(fig8Family, fig8Column, fig8Timestamp, w.draft(0, row))
	if err := l.plain.table.Apply(ctx, w.rows.keys[row], mut); err != nil {
		return err
	}
	w.wrote(row)
	return nil
}

func (l *fig8Lab) mutateTenInTurn(ctx context.Context, w *fig8Walker) error {
	var err error
	for i := 0; i < fig8TxnRows && err == nil; i++ {
		err = l.mutateRow(ctx, w)
	}
	return err
}

// What the limit of a single-cell commit stores besides the data: as many bytes as the protocol
// does, with no meaning.
var (
	fig8Lock   = make([]byte, 56)
	fig8Record = make([]byte, 9)
)

// tick is the next timestamp of the limit, from a counter: its oracle costs nothing.
func (l *fig8Lab) tick() bigtable.Timestamp { return bigtable.Timestamp(l.last.Add(1)) * 1000 }

// lockAndCommit is the bare limit of a single-cell write: prewrite and commit as two conditional
// requests (docs/internals/PROTOCOL.md, I2 and I6), and nothing of a transaction around them.
func (l *fig8Lab) lockAndCommit(ctx context.Context, w *fig8Walker) error {
	row := w.step()
	start := l.tick()
	column := func(family string) bigtable.Filter {
		return bigtable.ColumnRangeFilter(family, fig8Column, fig8Column+"\x00")
	}
	from := func(f bigtable.Filter, from, to bigtable.Timestamp) bigtable.Filter {
		return bigtable.ChainFilters(f, bigtable.TimestampRangeFilterMicros(from, to))
	}
	// The query is that of a first attempt.
	conflict := bigtable.InterleaveFilters(column("lock"), from(column("write"), start, 0))
	prewrite := setCell("data", fig8Column, start, w.draft(0, row))
	prewrite.Set("lock", fig8Column, start, fig8Lock)
	if err := l.conditional(ctx, w, row, bigtable.NewCondMutation(conflict, nil, prewrite), false); err != nil {
		return err
	}
	commit := setCell("write", fig8Column, l.tick(), fig8Record)
	commit.DeleteTimestampRange("lock", fig8Column, start, start+1000)
	if err := l.conditional(ctx, w, row, bigtable.NewCondMutation(from(column("lock"), start, start+1000), commit, nil), true); err != nil {
		return err
	}
	w.wrote(row)
	return nil
}

// conditional applies a mutation whose predicate must match, or must not.
func (l *fig8Lab) conditional(ctx context.Context, w *fig8Walker, row int, mut *bigtable.Mutation, match bool) error {
	var matched bool
	err := l.limit.table.Apply(ctx, w.rows.keys[row], mut, bigtable.GetCondMutationResult(&matched))
	if err == nil && matched != match {
		err = fmt.Errorf("row %s, which has no other writer, was not as it was left", w.rows.keys[row])
	}
	return err
}
