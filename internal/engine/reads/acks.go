package reads

import (
	"context"
	"maps"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// ackBytes ends a read of many cells with their acknowledgments: what a batch of observed cells may
// hold of values.
const ackBytes = 16 << 20

// AckedCell is an observed cell and who has run for it.
type AckedCell struct {
	Change CellResult               // the newest change
	Runs   map[string]tso.Timestamp // by observer, the start timestamp of its last run; 0: none
}

// ReadAcks returns the newest change of cells at ts, and the last runs of observers for them. The
// cells are of one column, and in row order without repetition. One request reads as many as it may
// name. Once their values exceed 16 MiB ReadAcks leaves the rest out: it returns at least one.
func (r *Reader) ReadAcks(ctx context.Context, ts tso.Timestamp, cells []model.Cell, observers []string) ([]AckedCell, error) {
	columns := []string{cells[0].Column}
	for _, o := range observers {
		columns = append(columns, layout.AckColumn(cells[0].Column, o))
	}
	seen, err := r.readColumns(ctx, ts, cells, columns)
	if err != nil {
		return nil, err
	}
	out := make([]AckedCell, len(seen))
	u := r.unfinished(ts, cells[0].Table, Scanned{}, len(seen))
	u.whole = true
	for i := range seen {
		out[i].Change.Cell = cells[i]
		u.add(&out[i].Change, seen[i][cells[i].Column], 1, true)
	}
	if err := u.finish(ctx); err != nil {
		return nil, err
	}
	finish := func(ctx context.Context, i int) (err error) {
		out[i].Runs, err = r.finishRuns(ctx, ts, cells[i], observers, columns[1:], seen[i])
		return err
	}
	if len(seen) == 1 {
		err = finish(ctx, 0)
	} else {
		g, gctx := errgroup.WithContext(ctx) // each may have to wait for a lock
		g.SetLimit(r.cfg.MaxParallelism)
		for i := range seen {
			g.Go(func() error { return finish(gctx, i) })
		}
		err = g.Wait()
	}
	if err != nil {
		return nil, retry.WithContext(ctx, err)
	}
	return out, r.meta.CheckRead(ctx, ts, cells[0].Table)
}

// finishRuns turns what a request saw of a cell's acknowledgments, in acks, into the last runs.
func (r *Reader) finishRuns(ctx context.Context, ts tso.Timestamp, cell model.Cell, observers, acks []string, rv layout.RowVersions) (runs map[string]tso.Timestamp, err error) {
	runs = make(map[string]tso.Timestamp, len(observers))
	for i, o := range observers {
		at := model.Cell{Table: cell.Table, Row: cell.Row, Column: acks[i]}
		if runs[o], err = r.FinishAck(ctx, ts, at, rv[at.Column]); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// readColumns reads the same columns of the cells' rows, in row order, until it has ackBytes.
func (r *Reader) readColumns(ctx context.Context, ts tso.Timestamp, cells []model.Cell, columns []string) ([]layout.RowVersions, error) {
	most := readMost
	if r.cfg.DisableBatching {
		most.Rows = 1
	}
	var out []layout.RowVersions
	for bytes := 0; len(out) < len(cells) && bytes <= ackBytes; {
		keys := firstRows(cells[len(out):], most)
		var rows []layout.RowVersions
		// There is almost always one part.
		for _, part := range (&rowWants{columns: columns, index: make([]int, len(columns))}).split() {
			q := store.Newest(part.columns, ts, 1)
			seen, size, err := r.readUpTo(ctx, cells[0].Table, keys, q, ackBytes-bytes)
			if err != nil {
				return nil, err
			}
			if bytes += size; rows == nil { // the first part holds the values
				rows, keys = seen, keys[:len(seen)]
				continue
			}
			for i, rv := range seen {
				maps.Copy(rows[i], rv)
			}
			rows, keys = rows[:len(seen)], keys[:len(seen)]
		}
		out = append(out, rows...)
	}
	return out, nil
}

// readUpTo reads rows with one request, at least one of them, until their size exceeds most bytes.
func (r *Reader) readUpTo(ctx context.Context, table string, keys []string, q store.Query, most int) (rows []layout.RowVersions, size int, err error) {
	if len(keys) == 1 {
		row, err := r.store.ReadRow(ctx, table, keys[0], q)
		return []layout.RowVersions{layout.DecodeRow(table, row)}, row.Size(), err
	}
	found := make(map[string]layout.RowVersions, len(keys))
	last := keys[len(keys)-1]
	err = r.store.ReadRows(ctx, table, store.Rows{Keys: keys}, q, 0, func(row layout.Row) bool {
		found[row.Key] = layout.DecodeRow(table, row)
		if size += row.Size(); size > most {
			last = row.Key
			return false
		}
		return true
	})
	for _, key := range keys {
		if key > last {
			break
		}
		rv, ok := found[key]
		if !ok {
			rv = layout.RowVersions{}
		}
		rows = append(rows, rv)
	}
	return rows, size, err
}

// firstRows are the rows of the first cells, as many as one request may name.
func firstRows(cells []model.Cell, most store.Load) (rows []string) {
	var load store.Load
	for _, c := range cells {
		if load = load.Plus(loadOf(c.Row)); len(rows) > 0 && load.Exceeds(most) {
			break
		}
		rows = append(rows, c.Row)
	}
	return rows
}

// FinishAck is FinishEach for an acknowledgment: the newest record of kind lock counts, and a
// rollback marker is not a run.
func (r *Reader) FinishAck(ctx context.Context, ts tso.Timestamp, ack model.Cell, v *layout.Versions) (tso.Timestamp, error) {
	pause := locks.NewLockWait()
	for window := 1; ; {
		if v != nil && v.Corrupt != nil {
			return 0, v.Corrupt
		}
		last, lock, deeper := v.LastRun(ts, window)
		switch {
		case lock != nil:
			met := &locks.Met{Cell: ack, Lock: *lock}
			if err := r.locks.ResolveOrWait(ctx, []*locks.Met{met}, &pause); err != nil {
				return 0, pause.Err(ctx, err)
			}
			if met.Err != nil {
				return 0, met.Err
			}
			if met.CommitTS != 0 {
				v, window = v.Committed(*lock, met.CommitTS, window)
				continue
			}
		case !deeper:
			return last, nil
		default:
			window *= 4
		}
		rv, err := r.store.ReadVersions(ctx, ack.Table, ack.Row, store.Newest([]string{ack.Column}, ts, window))
		if err != nil {
			return 0, err
		}
		v = rv[ack.Column]
	}
}
