package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A deletion of a range deletes what had committed before it began, and nothing else. Each of its
// transactions reads some rows at a start timestamp of its own and deletes those cells whose values
// are not younger than the deletion. Who writes one of them after that read conflicts (I2): the
// transaction is made again, finds a value that is younger, and leaves it alone.
//
// All calls for the same cells share one deletion, and so one timestamp, until it has come to its
// end: who is interrupted, and who works beside another one, goes on from the position that is
// stored (deleteposition.go).

// DeleteOptions configures DeleteRange. The zero value is useful.
type DeleteOptions struct {
	// Columns are those to delete, as many as one filter may name (about 16 KiB). None: all.
	Columns []string
	// DryRun counts the cells and deletes nothing.
	DryRun bool
	// RowsPerSecond bounds how fast rows are read, and so deleted. 0: 1,000. Two requests that
	// write and one that reads go to each row that has something to delete.
	RowsPerSecond int
	// Concurrency is how many transactions commit at once. 0: 4. At most 64.
	Concurrency int
	// RowsPerTransaction is how many rows one transaction reads; after a conflict it reads fewer
	// for a while. 0: 128. At most 1000.
	RowsPerTransaction int
	// CellsPerTransaction is how many cells one transaction deletes; each index on a column adds an
	// entry. A row that has more takes several. 0: 2,000. At most 20,000.
	CellsPerTransaction int
	// Progress, if set, is called after every batch, one call at a time. It must not block.
	Progress func(DeleteProgress)

	// SaveEvery is how many transactions commit between two saves of the position. 0: 8.
	SaveEvery int
}

// DeleteProgress tells how far a deletion has come. The counts include interrupted earlier runs, as
// far as those had saved them.
type DeleteProgress struct {
	// Before is when the deletion began: what committed later stays.
	Before tso.Timestamp
	Row    string `json:"-"` // rows of the range before this one are done

	Deleted   int64 // cells, or those that would be deleted
	Kept      int64 // cells that had been written since
	Conflicts int64 // transactions that conflicted with a writer and ran again
	Resumed   bool  `json:"-"` // an earlier run had started
}

func (o DeleteOptions) withDefaults() (DeleteOptions, error) {
	o.RowsPerSecond = cmp.Or(o.RowsPerSecond, 1000)
	o.Concurrency = cmp.Or(o.Concurrency, 4)
	o.RowsPerTransaction = cmp.Or(o.RowsPerTransaction, 128)
	o.CellsPerTransaction = cmp.Or(o.CellsPerTransaction, 2000)
	o.SaveEvery = cmp.Or(o.SaveEvery, 8)
	if o.Progress == nil {
		o.Progress = func(DeleteProgress) {}
	}
	if min(o.RowsPerSecond, o.Concurrency, o.RowsPerTransaction, o.CellsPerTransaction) < 0 ||
		o.Concurrency > 64 || o.RowsPerTransaction > 1000 || o.CellsPerTransaction > 20_000 {
		return o, fmt.Errorf("percolator: %w: DeleteOptions: Concurrency is at most 64, RowsPerTransaction at most 1000, CellsPerTransaction at most 20,000, and nothing is negative", model.ErrInvalidArgument)
	}
	o.Columns = slices.Compact(slices.Sorted(slices.Values(o.Columns)))
	return o, nil
}

// DeleteRange deletes the cells of a range of rows of a table, or those of some columns, in many
// transactions. It deletes what had committed when it began (DeleteProgress.Before); what commits
// later stays, also a new value of a cell in the range. The deletions are like any others:
// observers are notified, indexes follow, and earlier snapshots show the cells until collection.
// Snapshots taken while it runs show a part of them.
//
// It keeps its position in percolator_meta: after a crash, or when ctx has ended, the next call for
// the same cells continues from there, in this or another process, and does not begin anew.
// Concurrent calls are harmless, but no faster. A call after a deletion has ended begins another.
// The row with the position is never removed.
//
// It reads all values in the range once. Memory: the rows of at most Concurrency+1 transactions,
// each about 4 MiB of values or one row.
//
// Errors: ErrSchemaMismatch for a table that the schema lacks, or that was dropped meanwhile;
// ErrConflict if rows were imported meanwhile; ErrInvalidArgument for the options or a column's
// name; ErrTooLarge for more columns than a filter holds; ErrCorrupt for a cell, or a position,
// that cannot be decoded; those of the store and the oracle. The progress is valid in any case.
func (a *Admin) DeleteRange(ctx context.Context, table string, rows percolator.Range, opts DeleteOptions) (DeleteProgress, error) {
	return a.deleteRange(ctx, table, rows, 0, opts)
}

// deleteRange is DeleteRange, of what had committed at before; 0: when it began. A deletion of the
// same cells that had started is ended as it is.
func (a *Admin) deleteRange(ctx context.Context, table string, rows percolator.Range, before tso.Timestamp, opts DeleteOptions) (DeleteProgress, error) {
	ctx = store.InBackground(ctx)
	opts, err := opts.withDefaults()
	if err == nil {
		err = errors.Join(retry.CheckContext(ctx), a.checkDeletion(table, opts.Columns))
	}
	if err != nil {
		return DeleteProgress{}, err
	}
	d := &deletion{e: a.e, table: table, rows: rows, opts: opts}
	d.deletePosition = newDeletePosition(a.e.Store, table, rows, opts.Columns)
	open, end := a.e.WhileOpen(ctx)
	defer end()
	err = d.run(open, before)
	return d.at.DeleteProgress, a.e.OrClosed(ctx, err)
}

func (a *Admin) checkDeletion(table string, columns []string) error {
	if err := a.e.Meta.CheckTable(table); err != nil {
		return err
	}
	size := 0
	for _, col := range columns {
		if err := catalog.ValidateColumn(model.Cell{Table: table, Column: col}); err != nil {
			return err
		}
		size += store.PatternBytes(col)
	}
	if size > model.MaxFilterBytes {
		return fmt.Errorf("percolator: deletion in table %q: %w: the names of %d columns are more than a filter holds; name fewer, or none", table, model.ErrTooLarge, len(columns))
	}
	return nil
}

// deletion is one run.
type deletion struct {
	e     *engine.Engine
	table string
	rows  model.Range
	opts  DeleteOptions
	deletePosition
}

func (d *deletion) run(ctx context.Context, before tso.Timestamp) (err error) {
	if before == 0 {
		if before, err = nextTimestamp(ctx, d.e); err != nil {
			return err
		}
	}
	d.at.Before = before
	m, err := d.e.Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	d.life = m.LifeOfTable(d.table)
	if !d.opts.DryRun {
		if err := d.claim(ctx, before); err != nil {
			return err
		}
	}
	left := d.rows
	left.Start = max(left.Start, d.at.Row)
	err = d.walk().run(ctx, left)
	switch {
	case errors.Is(err, errDeletedElsewhere):
		return nil
	case d.opts.DryRun:
		return err
	case err != nil:
		d.saveUnfinished(ctx)
		return err
	}
	return d.finish(ctx)
}

// saveUnfinished spares the next call what this one has done. The caller's context may have ended.
func (d *deletion) saveUnfinished(ctx context.Context) {
	if d.unsaved == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := d.save(ctx); err != nil && !errors.Is(err, errDeletedElsewhere) {
		telemetry.Warn(d.e.Config.Logger, "position of a deletion not saved", err, "table", d.table)
	}
}

func (d *deletion) walk() *tableWalk {
	apply := d.delete
	if d.opts.DryRun {
		apply = func(_ context.Context, _ *commit.Txn, cells []model.Entry) (walkCounts, error) {
			old := len(d.old(cells))
			return walkCounts{cells: int64(len(cells) - old), writes: int64(old)}, nil
		}
	}
	return &tableWalk{
		e: d.e, table: d.table, apply: apply, done: d.passed,
		pacing: pacing{
			concurrency: d.opts.Concurrency, rows: d.opts.RowsPerTransaction,
			rate: rate.NewLimiter(rate.Limit(d.opts.RowsPerSecond), d.opts.RowsPerTransaction),
		},
		query: func(at tso.Timestamp) store.Query { return store.Newest(d.opts.Columns, at, 1) },
		over: func() error {
			if d.e.Store.Closed.Load() {
				return fmt.Errorf("percolator: %w", model.ErrClosed)
			}
			m, _ := d.e.Meta.Snapshot()
			return d.life.Became(m.LifeOfTable(d.table), d.table)
		},
	}
}

// old are the cells whose values had committed when the deletion began.
func (d *deletion) old(cells []model.Entry) []model.Cell {
	var old []model.Cell
	for _, e := range cells {
		if e.CommitTS <= d.at.Before {
			old = append(old, e.Cell)
		}
	}
	return old
}

// delete commits the deletion of what tx has read. What is too much for one transaction others
// read again: a transaction deletes only what its own snapshot shows.
func (d *deletion) delete(ctx context.Context, tx *commit.Txn, cells []model.Entry) (n walkCounts, err error) {
	old := d.old(cells)
	n.cells = int64(len(cells) - len(old)) // which stay
	for chunk := range slices.Chunk(old, d.opts.CellsPerTransaction) {
		if tx == nil {
			if tx, chunk, err = d.again(ctx, chunk); err != nil {
				return n, err
			}
		}
		for _, c := range chunk {
			// As it is: a declared table may have lost the column.
			if err := tx.Put(&commit.Write{Cell: c, Kind: layout.KindDelete}); err != nil {
				return n, err
			}
		}
		if _, err := tx.Commit(ctx); err != nil {
			return n, err
		}
		n.writes += int64(len(chunk))
		tx = nil
	}
	return n, nil
}

// again begins another transaction, and returns those of the cells that it has to delete.
func (d *deletion) again(ctx context.Context, cells []model.Cell) (*commit.Txn, []model.Cell, error) {
	tx, err := d.e.Commits.Begin(ctx, commit.TxnOptions{})
	if err != nil {
		return nil, nil, err
	}
	found, err := d.e.Reads.ReadCells(ctx, tx.StartTimestamp(), cells, len(cells))
	if err == nil {
		err = d.e.Meta.CheckRead(ctx, tx.StartTimestamp())
	}
	if err != nil {
		return nil, nil, err
	}
	var entries []model.Entry
	for i, r := range found {
		if r.Value != nil {
			entries = append(entries, model.Entry{Cell: cells[i], CommitTS: r.Record.CommitTS})
		}
	}
	return tx, d.old(entries), nil
}

// passed learns that everything before row is done.
func (d *deletion) passed(ctx context.Context, row string, n walkCounts) error {
	d.at.Row = row
	d.at.Deleted += n.writes
	d.at.Kept += n.cells
	d.at.Conflicts += n.conflicts
	d.opts.Progress(d.at.DeleteProgress)
	if d.unsaved++; d.opts.DryRun || d.unsaved < d.opts.SaveEvery || row == d.rows.End {
		return nil
	}
	return d.save(ctx)
}
