package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/tso"
)

// A backfill gives an index that was added to an existing table the entries of the cells that are
// older than it, while the table is in use (docs/PROTOCOL.md, "Indexes"):
//
//	drain   wait until every client knows the index and no commit of one that did not is under way
//	sweep   delete entries that are not true: a client with the index wrote the cell, and one without
//	        the index changed it afterwards
//	fill    write the entries that are missing, in row order
//	ready   publish that snapshots from now on can rely on the index
//
// What makes the fill safe beside writers is a conflict on the entry. It reads cell c with value v
// at its start timestamp S and writes the entry of v. Whoever changes c from v writes that entry
// too (index.go), and a write before S that changed c was seen; so of two that overlap one aborts.
// After the drain there is nobody else: a commit without the index either has its lock on c by
// then, and is waited for or rolled back by the read at S (I15), or fails the age check that
// precedes it. An entry that is there already, with c's value in the same snapshot, needs nothing.
//
// Rejected: locking c itself. It would be just as safe, at twice the requests, but readers of the
// table would meet the locks, writers that do not change the value would conflict, and every cell
// would keep a record that changes nothing, which costs each later read of it a second request.

// BackfillOptions is how BackfillIndex works. The zero value is useful.
type BackfillOptions struct {
	// Concurrency is how many transactions commit entries at once. 0: 4. At most 64.
	Concurrency int
	// RowsPerTransaction is how many rows one transaction looks at; after a conflict it is fewer for a
	// while. 0: 128. At most 1000.
	RowsPerTransaction int
	// Pause is waited for between the beginnings of two transactions, to leave room for others. 0:
	// none.
	Pause time.Duration
	// Progress, if set, is called after every batch and at the beginning of each phase, one call at a
	// time. It must not block.
	Progress func(BackfillProgress)

	// Wait waits for the drain of the given length. nil: by the clock.
	Wait func(context.Context, time.Duration) error
	// SaveEvery is after how many transactions the position is saved. 0: 8.
	SaveEvery int
}

func (o BackfillOptions) withDefaults() (BackfillOptions, error) {
	if o.Concurrency == 0 {
		o.Concurrency = 4
	}
	if o.RowsPerTransaction == 0 {
		o.RowsPerTransaction = 128
	}
	if o.Progress == nil {
		o.Progress = func(BackfillProgress) {}
	}
	if o.Wait == nil {
		o.Wait = retry.Sleep
	}
	if o.SaveEvery == 0 {
		o.SaveEvery = 8
	}
	if o.Concurrency < 0 || o.Concurrency > 64 || o.RowsPerTransaction < 0 || o.RowsPerTransaction > 1000 || o.Pause < 0 {
		return o, fmt.Errorf("percolator: %w: BackfillOptions: Concurrency is at most 64, RowsPerTransaction at most 1000, and nothing is negative", model.ErrInvalidArgument)
	}
	return o, nil
}

// BackfillPhase is a step of a backfill.
type BackfillPhase string

// The phases of a backfill, in order.
const (
	BackfillDrain BackfillPhase = "drain"
	BackfillSweep BackfillPhase = "sweep"
	BackfillFill  BackfillPhase = "fill"
	BackfillReady BackfillPhase = "ready"
)

// BackfillProgress tells how far a backfill has come. The counts include earlier runs that were
// broken off, as far as those had saved them.
type BackfillProgress struct {
	Phase BackfillPhase
	Row   string `json:"-"` // BackfillFill: rows of the table before this one are done

	Cells     int64 // looked at in BackfillFill
	Written   int64 // entries that were missing
	Removed   int64 // entries that were not true
	Conflicts int64 // transactions that met a writer and were run again
}

// BackfillReport is what BackfillIndex did.
type BackfillReport struct {
	BackfillProgress
	Resumed bool          // an earlier run had begun
	Since   tso.Timestamp // snapshots from here on can be read by ScanIndex; 0: all
}

// BackfillIndex finishes an index that CreateSchema has added to an existing table: it writes the
// entries of the cells that are older than the index, and makes the index ready for ScanIndex.
// Writers go on meanwhile; one that changes a cell whose entry is being written may get
// ErrConflict, as from any other transaction. Of an index that is ready it returns at once.
//
// It first waits until the schema is in force everywhere (RequestLifetime and MetaMaxAge of
// Schema.Timing and a little more; 80 s by default), then makes about one request for each missing
// entry and two for each RowsPerTransaction rows. Its position is kept in percolator_meta: after a
// crash, or when ctx has ended, the next call goes on from there, in this process or in another
// one. Two at once do no harm. Memory: the rows of at most Concurrency+1 transactions, each about 4
// MiB of values or one row.
//
// Errors: ErrUnique when two rows hold one value of a unique index, with the cells of both in the
// message; ErrTooLarge for a value that is too long for an entry; ErrCorrupt for a cell or an entry
// that cannot be decoded. The index stays as it is, and BackfillIndex can be called again when that
// has been put right. ErrSchemaMismatch: there is no such index. ErrInvalidArgument: the options.
func (a *Admin) BackfillIndex(ctx context.Context, table, index string, opts BackfillOptions) (BackfillReport, error) {
	opts, err := opts.withDefaults()
	if err == nil {
		err = model.CheckContext(ctx)
	}
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("percolator: backfill not begun: %w", ctx.Err())
	}
	if err != nil {
		return BackfillReport{}, err
	}
	ix, st, err := a.e.Meta.FindIndexNow(ctx, table, index)
	if err != nil {
		return BackfillReport{}, err
	}
	b := &backfill{c: a.e, table: table, ix: ix, opts: opts}
	if st.Building {
		open, end := a.e.WhileOpen(ctx)
		st, err = b.run(open)
		end()
	}
	err = a.e.OrClosed(ctx, err)
	if err == nil {
		b.at.Phase = BackfillReady
		opts.Progress(b.at.BackfillProgress)
	}
	return BackfillReport{BackfillProgress: b.at.BackfillProgress, Resumed: b.resumed, Since: st.Since}, err
}

// backfill is one run.
type backfill struct {
	c       *engine.Engine
	table   string
	ix      model.Index
	opts    BackfillOptions
	at      backfillCell
	unsaved int // batches finished since the position was last saved
	resumed bool
}

// errReadyElsewhere ends a walk when another backfill has finished.
var errReadyElsewhere = errors.New("another backfill has finished")

func (b *backfill) run(ctx context.Context) (meta.IndexState, error) {
	name := b.ix.TableName(b.table)
	if err := b.load(ctx); err != nil {
		return meta.IndexState{}, err
	}
	err := b.phases(ctx)
	switch {
	case errors.Is(err, errReadyElsewhere):
	case err != nil:
		b.saveUnfinished(ctx)
		return meta.IndexState{}, err
	}
	// Everything that was written was committed before this timestamp was asked for (I1).
	since, err := b.now(ctx)
	if err != nil {
		return meta.IndexState{}, err
	}
	st, err := b.c.Meta.IndexReady(ctx, name, since)
	if err == nil {
		err = b.forget(ctx)
	}
	return st, err
}

// now asks the oracle, again after failures that may pass.
func (b *backfill) now(ctx context.Context) (tso.Timestamp, error) {
	for retry := retry.NewTransient(); ; {
		ts, err := b.c.Clock.Next(ctx)
		if err == nil {
			return ts, nil
		}
		if err := retry.After(ctx, err); err != nil {
			return 0, err
		}
	}
}

// phases runs what is left to do.
func (b *backfill) phases(ctx context.Context) error {
	if b.at.Phase == BackfillDrain {
		// This client has read a schema with the index, so the time runs from the moment when that was
		// stored, or later.
		b.opts.Progress(b.at.BackfillProgress)
		if err := b.opts.Wait(ctx, b.c.Store.Timing.Drain()); err != nil {
			return err
		}
		if err := b.enter(ctx, BackfillSweep); err != nil {
			return err
		}
	}
	if b.at.Phase == BackfillSweep {
		w := &indexWalk{c: b.c, table: b.ix.TableName(b.table), column: model.IndexColumn, opts: b.opts, plan: b.planSweep, done: b.swept, over: b.over}
		if err := w.run(ctx, ""); err != nil {
			return err
		}
		if err := b.enter(ctx, BackfillFill); err != nil {
			return err
		}
	}
	w := &indexWalk{c: b.c, table: b.table, column: b.ix.Column, opts: b.opts, plan: b.planFill, done: b.filled, over: b.over}
	return w.run(ctx, b.at.Row)
}

// enter begins a phase. It is saved first: who resumes relies on what the phases before have done.
func (b *backfill) enter(ctx context.Context, p BackfillPhase) error {
	b.at.Phase = p
	b.opts.Progress(b.at.BackfillProgress)
	return b.save(ctx)
}

// over ends a walk when the client has heard that the index is ready, or was closed.
func (b *backfill) over() error {
	switch {
	case b.c.Store.Closed.Load():
		return fmt.Errorf("percolator: %w", model.ErrClosed)
	case !b.c.Meta.IndexState(b.ix, b.table).Building:
		return errReadyElsewhere
	}
	return nil
}

// planSweep deletes the entries whose cells hold something else. After the drain nobody makes more
// of them, so one sweep is enough. A writer that gives such a cell the value again writes the
// entry, and conflicts.
func (b *backfill) planSweep(ctx context.Context, tx *commit.Txn, entries []model.Entry) ([]*commit.Write, error) {
	cells, values := make([]model.Cell, len(entries)), make([]string, len(entries))
	for i, e := range entries {
		var ok bool
		if cells[i], values[i], ok = b.ix.DecodeEntry(b.table, e); !ok {
			return nil, model.CellError(model.ErrCorrupt, e.Cell, "not an entry of index %q; its key has %d bytes", b.ix.Name, len(e.Cell.Row))
		}
	}
	found, err := b.c.Reads.ReadCells(ctx, tx.Snap.TS, cells, len(cells))
	if err != nil {
		return nil, err
	}
	var writes []*commit.Write
	for i, r := range found {
		if r.Value == nil || string(r.Value) != values[i] {
			writes = append(writes, &commit.Write{Cell: entries[i].Cell, Kind: layout.KindDelete, Indexed: cells[i]})
		}
	}
	return writes, nil
}

func (b *backfill) swept(ctx context.Context, _ string, n walkCounts) error {
	b.at.Removed += n.writes
	b.at.Conflicts += n.conflicts
	b.opts.Progress(b.at.BackfillProgress)
	return nil
}

// planFill writes the entries that the cells lack.
func (b *backfill) planFill(ctx context.Context, tx *commit.Txn, cells []model.Entry) ([]*commit.Write, error) {
	entries := make([]model.Cell, len(cells))
	for i, e := range cells {
		if err := b.ix.CheckEntry(e.Cell, e.Value); err != nil {
			return nil, err
		}
		entries[i] = b.ix.EntryCell(b.table, string(e.Value), e.Cell.Row)
	}
	found, err := b.c.Reads.ReadCells(ctx, tx.Snap.TS, entries, len(entries))
	if err != nil {
		return nil, err
	}
	var writes []*commit.Write
	taken := map[model.Cell]model.Cell{} // by entry, the cell of this batch that gets it
	for i, r := range found {
		cell := cells[i].Cell
		if r.Value != nil && string(r.Value) == cell.Row {
			continue
		}
		if other, ok := taken[entries[i]]; ok {
			return nil, b.duplicate(cell, other)
		}
		if r.Value != nil {
			if err := b.checkOwner(ctx, tx, cells[i], model.Cell{Table: b.table, Row: string(r.Value), Column: b.ix.Column}); err != nil {
				return nil, err
			}
		}
		taken[entries[i]] = cell
		writes = append(writes, &commit.Write{Cell: entries[i], Kind: layout.KindPut, Value: []byte(cell.Row), Indexed: cell})
	}
	return writes, nil
}

// checkOwner is asked about a cell whose entry names another one, owner.
func (b *backfill) checkOwner(ctx context.Context, tx *commit.Txn, e model.Entry, owner model.Cell) error {
	if !b.ix.Unique {
		return model.CellError(model.ErrCorrupt, e.Cell, "the entry in index %q names another row", b.ix.Name)
	}
	holds, err := b.c.Reads.HoldsValue(ctx, tx.Snap.TS, owner, string(e.Value))
	if err == nil && holds {
		err = b.duplicate(e.Cell, owner)
	}
	return err
}

func (b *backfill) duplicate(a, other model.Cell) error {
	return model.CellError(model.ErrUnique, a, "%s holds the same value, and index %q is unique; change one of the two and run BackfillIndex again", other, b.ix.Name)
}

func (b *backfill) filled(ctx context.Context, row string, n walkCounts) error {
	b.at.Row = row
	b.at.Cells += n.cells
	b.at.Written += n.writes
	b.at.Conflicts += n.conflicts
	b.opts.Progress(b.at.BackfillProgress)
	if b.unsaved++; b.unsaved < b.opts.SaveEvery || row == "" { // at the end, forget replaces the save
		return nil
	}
	return b.save(ctx)
}
