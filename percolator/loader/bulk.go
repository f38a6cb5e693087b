package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Row is a row of an import, with its values:
//
//	Row   string
//	Cells []Cell
type Row = model.ImportRow

// Cell is one value of a row:
//
//	Column string
//	Value  []byte
type Cell = model.ImportCell

// BulkReport is what Bulk has done.
type BulkReport struct {
	Progress // of this call, without the check of what was stored
	// Resumed tells that this call went on with an earlier one; From is where it began.
	Resumed bool
	From    Position
	// FailedBefore counts the rows before From that were given to BulkConfig.Failed and passed
	// over.
	FailedBefore int64
	// Failures are the failed rows that were passed over, the first 100 of them.
	Failures []*ItemError
	// Source is what was read from the source, by all calls, and Table what was found in the table:
	// less what has expired and was collected.
	Source model.ImportSum
	Table  model.ImportReport
	// Since is from when on snapshots see the rows: all of them.
	Since tso.Timestamp
}

// ErrNotBegun: the first rows of an import's source were wrong, so the table stayed open.
var ErrNotBegun = errors.New("the import has not started, and the table is as it was")

// Bulk writes the rows of a source into an empty table, many times as fast as transactions would:
// without locks, in one mutation for each row. Meanwhile no client can use the table
// (admin.ErrImporting), and all can use the others. A snapshot sees all of the rows or none.
//
//	probe   rows are read and checked, as many as BulkConfig.Probe says
//	fence   clients are told, and Bulk waits until each must know (80 s by default)
//	load    the rows, with the entries of indexes and the notifications of observed columns
//	verify  a pass over the table and its indexes, compared with what was read from the source
//	lift    the table can be used, by snapshots that are not older than that moment
//
// After a crash, or an error, the fence stays. Bulk with the same table and the same
// BulkConfig.Source goes on from where the last position was saved, in any process; the source has
// to yield what it did before, unless BulkConfig.InUse is set. admin.Admin.AbortImport removes what
// was written instead, and lifts the fence. Two processes that work for one import do no harm: the
// later one goes on, and the earlier one ends with ErrTakenOver, or percolator.ErrConflict.
//
// A row may come in several items, but a cell only once: its value would be either, so the check
// fails.
//
// Memory: BulkConfig.MaxInFlightBytes of values and about as much again for requests; the check
// reads 8 parts of the table at once, of which each keeps up to 16 MiB where reads are slow.
//
// Errors: the context's; *ItemError for a row that cannot be stored; what the source yields;
// ErrNotBegun with either; ErrTakenOver; admin.ErrNotEmpty, admin.ErrImporting, admin.ErrRestoring,
// admin.ErrRepairing; percolator.ErrUnique if rows share a value of a unique index
// (BulkReport.Table lists them); percolator.ErrCorrupt if the check finds another difference;
// percolator.ErrConflict if the import was finished, aborted or taken over by another process, or a
// repair came between; errors of the client that are not transient, or that outlast
// BulkConfig.OutageTimeout; percolator.ErrInvalidArgument. The report is valid in any case.
func Bulk(ctx context.Context, client *percolator.Client, cfg BulkConfig, source Source[Row]) (BulkReport, error) {
	if ctx == nil || client == nil || source == nil {
		return BulkReport{}, fmt.Errorf("loader: %w: Bulk needs a context, a client and a source", percolator.ErrInvalidArgument)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return BulkReport{}, err
	}
	b := &bulk{cfg: cfg, source: source}
	b.counts.began = time.Now()
	b.phase.Store(BulkFence)
	shown, hide := context.WithCancel(context.WithoutCancel(ctx))
	var showing sync.WaitGroup
	showing.Go(func() { b.counts.report(shown, cfg.ProgressInterval, b.show) })
	defer showing.Wait()
	defer hide() // also when the source panics
	err = b.run(ctx, client)
	return b.report, named(ctx, err)
}

// bulk is one call of Bulk.
type bulk struct {
	cfg    BulkConfig
	source Source[Row]
	im     *transfer.Import
	saved  *checkpoint
	order  *order
	report BulkReport
	last   string // row of a source in use

	counts   counts
	phase    atomic.Value // BulkPhase
	before   atomic.Int64 // rows of an earlier call
	probed   atomic.Int64 // rows
	verified atomic.Int64 // rows
}

func (b *bulk) show(p Progress) {
	b.cfg.Progress(BulkProgress{Progress: p, Phase: b.phase.Load().(BulkPhase), Before: b.before.Load(), Probed: b.probed.Load(), Verified: b.verified.Load()})
}

func (b *bulk) run(ctx context.Context, client *percolator.Client) (err error) {
	probe := func(check func(Row) error) error { return b.probe(ctx, check) }
	if b.im, err = transfer.BeginImport(ctx, client.Engine(), b.cfg.Table, b.cfg.Source, b.cfg.Quiet, b.cfg.Waiting, probe); err != nil {
		return err
	}
	// Of another import into the table, or of one whose position a repair has removed, nothing
	// counts.
	name := fmt.Sprintf("import into %s at %d", b.cfg.Table, b.im.CommitTimestamp())
	saved, from, err := openCheckpoint(ctx, admin.New(client), name, func(record) bool { return false }, b.outage(ctx))
	if err != nil {
		return err
	}
	b.saved, b.order = saved, newOrder(from)
	b.report.Resumed, b.report.From, b.report.FailedBefore = from.Items > 0, Position{Items: from.Items, Token: from.Token}, from.Failed
	b.before.Store(from.Items)
	if cfg := b.cfg; cfg.InUse && !from.Done {
		b.last = string(from.Token)
		err = b.outage(ctx).try(ctx, func(ctx context.Context) error { return b.im.TakeOver(ctx, b.last, cfg.Waiting) })
		if err != nil {
			return err
		}
	}
	b.phase.Store(BulkLoad)
	if !from.Done {
		err = b.load(ctx)
	}
	b.report.Progress, b.report.Failures = b.counts.read(), b.counts.failures
	b.report.Source = b.order.record().Sums.Total()
	if err != nil {
		return err
	}
	b.phase.Store(BulkVerify)
	err = b.outage(ctx).try(ctx, func(ctx context.Context) (err error) {
		b.report.Table, err = b.im.Verify(ctx, b.order.record().Sums, b.verified.Store)
		return err
	})
	if err != nil {
		return err
	}
	return b.outage(ctx).try(ctx, func(ctx context.Context) (err error) {
		b.report.Since, err = b.im.Lift(ctx)
		return err
	})
}

// probe checks the first rows of the source.
func (b *bulk) probe(ctx context.Context, check func(Row) error) error {
	index, bytes := int64(0), int64(0)
	if b.cfg.Probe == 0 {
		return nil
	}
	b.phase.Store(BulkProbe)
	defer b.phase.Store(BulkFence)
	for item, err := range b.source(ctx, Position{}) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && b.cfg.SourceFailed == nil:
			return fmt.Errorf("source: %w (%w)", err, ErrNotBegun)
		case err == nil && b.cfg.Failed == nil:
			if err := check(item.Value); err != nil {
				return fmt.Errorf("%w (%w)", &ItemError{Index: index, Err: err}, ErrNotBegun)
			}
		}
		for _, c := range item.Value.Cells {
			bytes += int64(len(c.Value))
		}
		b.probed.Store(index + 1)
		if index++; b.cfg.Probe > 0 && (index >= int64(b.cfg.Probe) || bytes > b.cfg.MaxInFlightBytes) {
			break
		}
	}
	return nil
}

func (b *bulk) outage(ctx context.Context) *outage { return newOutage(b.cfg.OutageTimeout, ctx) }

// load writes everything from the position on.
func (b *bulk) load(ctx context.Context) error {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	saves, endSaves := context.WithCancel(context.WithoutCancel(ctx))
	defer endSaves()
	var saving sync.WaitGroup
	saving.Go(func() {
		keepSaving(saves, b.order.moved, b.cfg.CheckpointInterval, func(ctx context.Context) error { return b.save(ctx, false) }, stop)
	})
	g, gctx := errgroup.WithContext(working)
	err := b.read(gctx, g)
	if werr := g.Wait(); werr != nil { // the reader may only have been stopped by it
		err = werr
	}
	endSaves()
	saving.Wait()
	if cause := context.Cause(working); err == nil || cause != nil && ctx.Err() == nil {
		err = cause
	}
	if err == nil {
		return b.save(ctx, true)
	}
	if !errors.Is(err, ErrTakenOver) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
		defer cancel()
		if serr := b.save(last, false); serr != nil {
			warn(b.cfg.Logger, "loader: the last position has not been saved; some rows will be written again", serr, "table", b.cfg.Table)
		}
	}
	return err
}

func (b *bulk) save(ctx context.Context, done bool) error {
	at := b.order.record()
	at.Done = done
	return b.saved.save(ctx, b.outage(ctx), at)
}

// Bounds of what is written at once.
const (
	bulkRows  = 512
	bulkBytes = 4 << 20
)

// bulkBatch is consecutive items.
type bulkBatch struct {
	finished
	first int64
	rows  []Row
	bytes int64
}

// read cuts the source into batches and has them written.
func (b *bulk) read(ctx context.Context, g *errgroup.Group) error {
	g.SetLimit(b.cfg.Concurrency)
	room := semaphore.NewWeighted(b.cfg.MaxInFlightBytes)
	// ahead bounds the items that wait for an earlier one.
	ahead := semaphore.NewWeighted(int64(aheadFactor * b.cfg.Concurrency * bulkRows))
	index := b.report.From.Items
	batch := &bulkBatch{first: index}
	write := func() error {
		next := batch
		if next.items == 0 {
			return nil
		}
		batch = &bulkBatch{first: index}
		weight := min(next.bytes, b.cfg.MaxInFlightBytes)
		if room.Acquire(ctx, weight) != nil || ahead.Acquire(ctx, next.items) != nil {
			return context.Cause(ctx)
		}
		g.Go(func() error {
			defer room.Release(weight)
			return b.write(ctx, next, ahead)
		})
		return nil
	}
	for item, err := range b.source(ctx, b.report.From) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if b.cfg.SourceFailed == nil {
				return fmt.Errorf("source: %w", err)
			}
			if err := b.cfg.SourceFailed(err); err != nil {
				return err
			}
			continue
		}
		if len(item.Token) > MaxToken {
			return fmt.Errorf("source: %w: row %d has a token of more than %d bytes", percolator.ErrInvalidArgument, index, MaxToken)
		}
		if err := b.take(batch, index, item); err != nil {
			return err
		}
		if index++; batch.items >= int64(b.cfg.RowsPerRequest) || batch.bytes >= bulkBytes {
			if err := write(); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return write()
}

// take adds an item to a batch, or has it passed over.
func (b *bulk) take(batch *bulkBatch, index int64, item Item[Row]) error {
	b.counts.entered.Add(1)
	batch.items++
	batch.token = item.Token
	if b.cfg.InUse {
		if row := item.Value.Row; row <= b.last || string(item.Token) != row {
			return fmt.Errorf("source: %w: row %d does not have its key as its token, or that is not above the one before, as BulkConfig.InUse asks", percolator.ErrInvalidArgument, index)
		}
		b.last = item.Value.Row
	}
	if err := b.im.Check(item.Value); err != nil {
		failed := &ItemError{Index: index, Err: err}
		if b.cfg.Failed == nil {
			return failed
		}
		if err := b.cfg.Failed(Failure[Row]{Index: index, Item: item.Value, Err: err}); err != nil {
			return err
		}
		b.counts.passedOver(failed)
		batch.failed++
		return nil
	}
	batch.rows = append(batch.rows, item.Value)
	batch.bytes += int64(len(item.Value.Row))
	for _, c := range item.Value.Cells {
		batch.bytes += int64(len(item.Value.Row) + len(c.Column) + len(c.Value))
	}
	return nil
}

// write writes a batch, again while the store fails.
func (b *bulk) write(ctx context.Context, batch *bulkBatch, ahead *semaphore.Weighted) error {
	batch.sums = b.im.Sums(batch.rows...)
	first := true
	err := b.outage(ctx).try(ctx, func(ctx context.Context) error {
		if !first {
			b.counts.retries.Add(1)
		}
		first = false
		return b.im.WriteRows(ctx, batch.rows)
	})
	if err != nil {
		return err
	}
	b.counts.items.Add(int64(len(batch.rows)))
	b.counts.bytes.Add(batch.sums.Total().Bytes)
	ahead.Release(b.order.finish(batch.first, batch.finished))
	return nil
}

// AbortImport removes what an unfinished import ([Bulk]) has written into a table, and lifts its
// fence. It may be broken off and called again. First it waits, as Bulk does, until every process
// that still imports must know; waiting, if not nil, is told for how long. progress, if not nil, is
// called with the rows that were removed so far. aborted is false if no import is unfinished. What
// an import has written into a table that was dropped since goes with the table.
func AbortImport(ctx context.Context, client *percolator.Client, table string, waiting func(time.Duration), progress func(rows int64)) (aborted bool, err error) {
	return transfer.AbortImport(ctx, client.Engine(), table, waiting, progress)
}
