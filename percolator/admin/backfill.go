package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A backfill gives an index that was added to an existing table the entries of the cells that are
// older than it, while the table is in use (docs/internals/PROTOCOL.md, "Indexes"):
//
//	drain   wait until every client knows the index and no commit of one that did not is in flight
//	sweep   delete entries that are not true: a client with the index wrote the cell, and one without
//	        the index changed it afterwards
//	fill    write the entries that are missing, in row order
//	ready   publish that snapshots from now on can rely on the index
//
// A conflict on the entry makes the fill safe beside writers. The fill reads cell c with value v at
// its start timestamp S and writes the entry of v. A transaction that changes c from v writes that
// entry too (index.go), and the fill has seen every write before S; so of two that overlap one
// aborts. After the drain no other client is left: a commit without the index either has its lock
// on c by then, and is waited for or rolled back by the read at S (I15), or fails the age check
// that precedes it. An entry that is there already, with c's value and expiry in the same snapshot,
// needs nothing.
//
// Rejected: locking c itself. It would be just as safe, at twice the requests, but readers of the
// table would meet the locks, writers that do not change the value would conflict, and every cell
// would keep a record that changes nothing, which costs each later read of it a second request.

// BackfillOptions configures BackfillIndex. The zero value is useful.
type BackfillOptions struct {
	// Concurrency is how many transactions commit entries at once. 0: 4. At most 64.
	Concurrency int
	// RowsPerTransaction is how many rows one transaction reads; after a conflict it reads fewer
	// for a while. 0: 128. At most 1000.
	RowsPerTransaction int
	// Pause separates the beginnings of two transactions, to leave room for other clients. 0: none.
	Pause time.Duration
	// Progress, if set, is called after every batch and at the beginning of each phase, one call at
	// a time. It must not block.
	Progress func(BackfillProgress)

	// Wait waits for the drain of the given length. nil: by the clock.
	Wait func(context.Context, time.Duration) error
	// SaveEvery is how many transactions commit between two saves of the position. 0: 8.
	SaveEvery int
}

func (o BackfillOptions) withDefaults() (BackfillOptions, error) {
	o.Concurrency = cmp.Or(o.Concurrency, 4)
	o.RowsPerTransaction = cmp.Or(o.RowsPerTransaction, 128)
	if o.Progress == nil {
		o.Progress = func(BackfillProgress) {}
	}
	if o.Wait == nil {
		o.Wait = retry.Sleep
	}
	o.SaveEvery = cmp.Or(o.SaveEvery, 8)
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

// BackfillProgress tells how far a backfill has come. The counts include interrupted earlier runs,
// as far as those had saved them.
type BackfillProgress struct {
	Phase BackfillPhase
	Row   string `json:"-"` // BackfillFill: rows of the table before this one are done

	Cells     int64 // looked at in BackfillFill
	Written   int64 // entries that were missing, or expired at another time than their cells
	Removed   int64 // entries whose cells hold something else, or expire at another time
	Conflicts int64 // transactions that conflicted with a writer and ran again
}

// BackfillReport is what BackfillIndex did.
type BackfillReport struct {
	BackfillProgress
	Resumed bool          // an earlier run had started
	Since   tso.Timestamp // ScanIndex can read snapshots from here on; 0: all
}

// BackfillIndex finishes an index that CreateSchema has added to an existing table: it writes the
// entries of the cells that are older than the index, and makes the index ready for ScanIndex.
// Writers continue meanwhile; one that changes a cell while BackfillIndex writes its entry may get
// ErrConflict, as from any other transaction. If the index is ready BackfillIndex returns at once.
//
// It first waits until the schema is in force everywhere (RequestLifetime and MetaMaxAge of
// Schema.Timing and a little more; 80 s by default), then makes about one request for each missing
// entry and two for each RowsPerTransaction rows. It keeps its position in percolator_meta: after a
// crash, or when ctx has ended, the next call continues from there, in this or another process.
// Concurrent calls do no harm. Memory: the rows of at most Concurrency+1 transactions, each about 4
// MiB of values or one row.
//
// Errors: ErrUnique when two rows hold one value of a unique index, with the cells of both in the
// message; ErrTooLarge for a value that is too long for an entry; ErrCorrupt for a cell or an entry
// that cannot be decoded. The index stays as it is; repair the cells and call BackfillIndex again.
// ErrSchemaMismatch: there is no such index, or it was dropped meanwhile. ErrImporting: an import
// into the table is unfinished. ErrConflict: one came to its end meanwhile; call BackfillIndex
// again. ErrInvalidArgument: the options.
func (a *Admin) BackfillIndex(ctx context.Context, table, index string, opts BackfillOptions) (BackfillReport, error) {
	ctx = store.InBackground(ctx)
	opts, err := opts.withDefaults()
	if err == nil {
		err = retry.CheckContext(ctx)
	}
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("percolator: backfill not started: %w", ctx.Err())
	}
	if err != nil {
		return BackfillReport{}, err
	}
	found, err := a.e.Meta.FindIndexNow(ctx, table, index)
	if err != nil {
		return BackfillReport{}, err
	}
	st := found.State
	b := &backfill{
		e: a.e, table: table, ix: found.Index, life: found.Life, opts: opts,
		walkPosition: walkPosition{positionAt(a.e.Store, meta.BackfillRowPrefix+found.Table)},
	}
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
	e       *engine.Engine
	table   string
	ix      model.Index
	life    meta.Life
	opts    BackfillOptions
	at      backfillCell
	unsaved int // batches finished since the position was last saved
	resumed bool
	walkPosition
}

// backfillCell is the stored position.
type backfillCell struct {
	BackfillProgress
	RowKey []byte    // BackfillProgress.Row, which JSON would damage
	Life   meta.Life `json:",omitzero"` // of the index
}

// saveTimeout bounds the last save of a run whose context has ended.
const saveTimeout = 2 * time.Second

// errReadyElsewhere ends a walk when another backfill has finished.
var errReadyElsewhere = errors.New("another backfill has finished")

func (b *backfill) run(ctx context.Context) (model.IndexState, error) {
	if err := b.over(); err != nil && !errors.Is(err, errReadyElsewhere) {
		return model.IndexState{}, err
	}
	if err := b.resume(ctx); err != nil {
		return model.IndexState{}, err
	}
	err := b.phases(ctx)
	switch {
	case errors.Is(err, errReadyElsewhere):
	case err != nil:
		b.saveUnfinished(ctx)
		return model.IndexState{}, err
	}
	// Everything that was written was committed before this timestamp was asked for (I1).
	since, err := nextTimestamp(ctx, b.e)
	if err != nil {
		return model.IndexState{}, err
	}
	st, err := b.e.Meta.IndexReady(ctx, b.table, b.ix, b.life, since)
	if err == nil {
		err = b.forget(ctx)
	}
	return st, err
}

// resume takes up the position of an earlier run.
func (b *backfill) resume(ctx context.Context) error {
	b.at.Phase = BackfillDrain
	v, err := b.Read(ctx)
	if err != nil || v == nil {
		return err
	}
	at, err := decodeBackfillCell(v)
	if err != nil {
		return unreadable(b.MetaCell, "the position of the backfill")
	}
	if at.Life == b.life {
		b.at, b.resumed = at, true
	}
	return nil
}

func decodeBackfillCell(v []byte) (at backfillCell, err error) {
	if err := json.Unmarshal(v, &at); err != nil {
		return at, err
	}
	switch at.Phase {
	case BackfillDrain, BackfillSweep, BackfillFill:
	default:
		return at, model.ErrCorrupt
	}
	at.Row = string(at.RowKey)
	return at, nil
}

func (b *backfill) save(ctx context.Context) error {
	b.at.RowKey, b.at.Life, b.unsaved = []byte(b.at.Row), b.life, 0
	return b.walkPosition.save(ctx, b.at)
}

// saveUnfinished spares the next run what this one has done. The caller's context may have ended.
func (b *backfill) saveUnfinished(ctx context.Context) {
	if b.unsaved == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := b.save(ctx); err != nil {
		telemetry.Warn(b.e.Config.Logger, "position of a backfill not saved", err, "index", catalog.IndexTable(b.table, b.ix))
	}
}

// phases runs what is left to do.
func (b *backfill) phases(ctx context.Context) error {
	if b.at.Phase == BackfillDrain {
		// This client has read a schema with the index, so the time runs from the moment when that
		// was stored, or later.
		b.opts.Progress(b.at.BackfillProgress)
		if err := b.opts.Wait(ctx, catalog.DrainTime(b.e.Store.Timing)); err != nil {
			return err
		}
		if err := b.enter(ctx, BackfillSweep); err != nil {
			return err
		}
	}
	if b.at.Phase == BackfillSweep {
		w := b.walk(catalog.IndexTable(b.table, b.ix), catalog.IndexColumn, b.planSweep, b.swept)
		if err := w.run(ctx, model.All()); err != nil {
			return err
		}
		if err := b.enter(ctx, BackfillFill); err != nil {
			return err
		}
	}
	return b.walk(b.table, b.ix.Column, b.planFill, b.filled).run(ctx, model.Between(b.at.Row, ""))
}

// walk goes through a column of a table and commits the entries that plan asks for.
func (b *backfill) walk(
	table, column string, plan func(context.Context, *commit.Txn, []model.Entry) ([]*commit.Write, error), done func(context.Context, string, walkCounts) error,
) *tableWalk {
	return &tableWalk{
		e: b.e, table: table, done: done, over: b.over,
		pacing: pacing{concurrency: b.opts.Concurrency, rows: b.opts.RowsPerTransaction, pause: b.opts.Pause},
		query:  func(at tso.Timestamp) store.Query { return store.Newest([]string{column}, at, 1) },
		apply: func(ctx context.Context, tx *commit.Txn, cells []model.Entry) (n walkCounts, err error) {
			writes, err := plan(ctx, tx, cells)
			if err == nil && len(writes) > 0 {
				err = tx.CommitEntries(ctx, writes)
			}
			if err == nil {
				n = walkCounts{cells: int64(len(cells)), writes: int64(len(writes))}
			}
			return n, err
		},
	}
}

// enter begins a phase. It saves the phase first: a run that resumes relies on what the earlier
// phases have done.
func (b *backfill) enter(ctx context.Context, p BackfillPhase) error {
	b.at.Phase = p
	b.opts.Progress(b.at.BackfillProgress)
	return b.save(ctx)
}

// over ends a walk when the client knows that the index is ready, or cannot become that, or is
// closed.
func (b *backfill) over() error {
	if b.e.Store.Closed.Load() {
		return fmt.Errorf("percolator: %w", model.ErrClosed)
	}
	m, _ := b.e.Meta.Snapshot()
	if building, err := m.IsBuilding(b.table, b.ix, b.life); building || err != nil {
		return err
	}
	return errReadyElsewhere
}

func (b *backfill) swept(_ context.Context, _ string, n walkCounts) error {
	b.at.Removed += n.writes
	b.at.Conflicts += n.conflicts
	b.opts.Progress(b.at.BackfillProgress)
	return nil
}

func (b *backfill) filled(ctx context.Context, row string, n walkCounts) error {
	b.at.Row = row
	b.at.Cells += n.cells
	b.at.Written += n.writes
	b.at.Conflicts += n.conflicts
	b.opts.Progress(b.at.BackfillProgress)
	// At the end, forget replaces the save of the position.
	if b.unsaved++; b.unsaved < b.opts.SaveEvery || row == "" {
		return nil
	}
	return b.save(ctx)
}
