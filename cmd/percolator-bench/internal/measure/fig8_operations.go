package measure

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/percolator"
)

const (
	// fig8SnapshotGets is for how many Gets, each of another row, a goroutine keeps its snapshot. A
	// snapshot answers a row that it has read before without asking the store, so the rows differ; and
	// goroutines have snapshots of their own, since requests at one timestamp are cheaper together
	// than at many.
	fig8SnapshotGets = 64

	// fig8TxnRows is how many rows the larger transactions write.
	fig8TxnRows = 10

	// fig8Timestamp is that of all raw writes: a row that got another version with each of them would
	// become slower, and flatter us.
	fig8Timestamp = bigtable.Timestamp(1000)
)

// fig8Op is an operation of ours.
type fig8Op func(ctx context.Context, c *percolator.Client, w *fig8Walker) error

// fig8Reader is the snapshot that a goroutine reads from.
type fig8Reader struct {
	snapshot *percolator.Snapshot
	gets     int
}

// getFromSnapshot is the read of Figure 8: the start timestamp has been had in advance, for
// fig8SnapshotGets Gets.
func getFromSnapshot(ctx context.Context, c *percolator.Client, w *fig8Walker) (err error) {
	if w.gets%fig8SnapshotGets == 0 {
		if w.snapshot, err = c.Snapshot(ctx); err != nil {
			return err
		}
	}
	w.gets++
	return w.get(ctx, w.snapshot)
}

// beginAndGet is a transaction that reads one cell, timestamp included.
func beginAndGet(ctx context.Context, c *percolator.Client, w *fig8Walker) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	return errors.Join(w.get(ctx, tx), tx.Rollback(ctx))
}

func (w *fig8Walker) get(ctx context.Context, r percolator.Reader) error {
	row := w.step()
	v, err := r.Get(ctx, fig8Cell(w.rows.keys[row]))
	if err != nil {
		return err
	}
	return w.rows.check(w.values[0], row, v)
}

// writeRows is a transaction that reads nothing and writes one cell in each of n rows.
func writeRows(n int, opts ...percolator.TxnOption) fig8Op {
	return func(ctx context.Context, c *percolator.Client, w *fig8Walker) error {
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
func (l *fig8Lab) readRow(filter bigtable.ReadOption) func(ctx context.Context, w *fig8Walker) error {
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
	fig8Named  = bigtable.RowFilter(bigtable.ChainFilters(bigtable.FamilyFilter(fig8Family), bigtable.ColumnFilter(fig8Column), bigtable.LatestNFilter(1)))
)

func (l *fig8Lab) mutateRow(ctx context.Context, w *fig8Walker) error {
	row := w.step()
	if err := l.apply(ctx, w, row, 0); err != nil {
		return err
	}
	w.wrote(row)
	return nil
}

func (l *fig8Lab) apply(ctx context.Context, w *fig8Walker, row, buffer int) error {
	mut := bigtable.NewMutation()
	mut.Set(fig8Family, fig8Column, fig8Timestamp, w.draft(buffer, row))
	return l.plain.table.Apply(ctx, w.rows.keys[row], mut)
}

func (l *fig8Lab) mutateTenInTurn(ctx context.Context, w *fig8Walker) error {
	for range fig8TxnRows {
		if err := l.mutateRow(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (l *fig8Lab) mutateTenAtOnce(ctx context.Context, w *fig8Walker) error {
	var rows [fig8TxnRows]int
	var group errgroup.Group
	for i := range rows {
		rows[i] = w.step()
		group.Go(func() error { return l.apply(ctx, w, rows[i], i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	w.wrote(rows[:]...)
	return nil
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
// requests (docs/PROTOCOL.md, I2 and I6), and nothing of a transaction around them.
func (l *fig8Lab) lockAndCommit(ctx context.Context, w *fig8Walker) error {
	row := w.step()
	start := l.tick()
	column := func(family string) bigtable.Filter {
		return bigtable.ColumnRangeFilter(family, fig8Column, fig8Column+"\x00")
	}
	from := func(f bigtable.Filter, from, to bigtable.Timestamp) bigtable.Filter {
		return bigtable.ChainFilters(f, bigtable.TimestampRangeFilterMicros(from, to))
	}
	conflict := bigtable.InterleaveFilters(column("lock"), from(column("write"), start, 0)) // as at a first sending
	prewrite := bigtable.NewMutation()
	prewrite.Set("data", fig8Column, start, w.draft(0, row))
	prewrite.Set("lock", fig8Column, start, fig8Lock)
	if err := l.conditional(ctx, w, row, bigtable.NewCondMutation(conflict, nil, prewrite), false); err != nil {
		return err
	}
	commit := bigtable.NewMutation()
	commit.Set("write", fig8Column, l.tick(), fig8Record)
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
		err = fmt.Errorf("row %s, which nobody else writes, was not as it was left", w.rows.keys[row])
	}
	return err
}
