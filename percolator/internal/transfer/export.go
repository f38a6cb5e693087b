// Package transfer exports an instance at one timestamp and restores an export into empty tables.
// It stands above package engine and moves rows, not files: package backup has the file format. Its
// one idea: a restored instance looks as if one large transaction had written it.
package transfer

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// An export is what a backup reads: values at one timestamp, and what observers still have to do
// about them. The first part is a scan. For the second, the time of the snapshot S and the time T
// at which a row is read differ, and notify cells have no history; so what was pending at S is
// inferred from what is stored at T:
//
//	observed   a notify cell ≤ S is there     it was pending at S
//	           an observer has not            it was pending at S, and that observer has run for it
//	           acknowledged the change at S   since: the acknowledgment has a history, of which the
//	           and its column has something   collector removes nothing newer than the hold
//	           newer
//	           the record of the change was   the notify cell came with the record (I10), after the
//	           a lock                         export had looked for it
//	weak       a notify cell ≤ S is there     it was pending at S
//	           a trace > S is there           a run that may have committed after S has erased one
//
// Weak notifications have no acknowledgment. So a client that erases one while there is a hold
// leaves a trace, a marker in the write family under a reserved name, which the collector removes
// like any other (trace, below). BeginExport takes the hold, and S only after every client must
// know of it. Weak notifications are read when all rows have been: a transaction whose commit
// timestamp lies below S writes its own before it commits (I11), and reading the rows has waited
// for its locks (I15).
//
// All of this errs on the side of running an observer once more. Rejected: to export notify cells
// as they are found. What ran between S and T would be lost, since its effects are not in the
// snapshot. Rejected too: always to leave traces. They cost a record for each run of a popular row,
// and matter only during an export.

// BeginExport takes a hold for an export and returns the timestamp to export at. If the schema has
// weak columns it waits in between until every client knows of the hold (RequestLifetime and
// MetaMaxAge of Schema.Timing and a little more; 80 s by default), and tells waiting, if that is
// not nil, for how long. ttl is as for TakeHold, but longer than that wait (ErrInvalidArgument).
func BeginExport(ctx context.Context, e *engine.Engine, ttl time.Duration, reason string, waiting func(time.Duration)) (model.Hold, tso.Timestamp, error) {
	drain := catalog.DrainTime(e.Store.Timing)
	if ttl <= drain {
		return model.Hold{}, 0, fmt.Errorf("percolator: %w: the hold of an export must last longer than %v", model.ErrInvalidArgument, drain)
	}
	h, err := e.Meta.TakeHold(ctx, 0, ttl, reason)
	if err != nil || !e.Meta.HasWeak() {
		return h, h.Timestamp, err
	}
	if waiting != nil {
		waiting(drain)
	}
	if err = retry.Sleep(ctx, drain); err == nil {
		var ts tso.Timestamp
		if ts, err = e.Clock.Next(ctx); err == nil {
			return h, ts, nil
		}
	}
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), meta.ReleaseTimeout)
	defer cancel()
	_ = e.Meta.ReleaseHold(release, h) // it expires otherwise
	return model.Hold{}, 0, err
}

// ExportRows streams what a snapshot at ts holds of the rows of table in r, in row order: all
// values, deletions that observers may not know of, and what observers have to do about either.
// Without a hold on ts (BeginExport) the stream may end with ErrSnapshotTooOld. Memory: one page,
// at most 4096 rows or, beyond its last row, about 4 MiB; where so few rows have anything to export
// that a request is cut off, 16 MiB that are read ahead.
func ExportRows(ctx context.Context, e *engine.Engine, ts tso.Timestamp, table string, r model.Range) iter.Seq2[model.ExportedRow, error] {
	info, ok := e.Meta.Catalog.Load().UserTable(table)
	if !ok {
		return failedExport(e.Meta.Catalog.Load().UnknownTable(table))
	}
	ctx = store.InBackground(ctx)
	x := &exporter{e: e, ts: ts, info: info, keys: r}
	return x.export(ctx, x.passed(ctx, store.Exported(x.ts, len(x.info.Observed) > 0)), x.rows)
}

// AwaitWeak waits, before ExportWeak, until every weak notification below an export's timestamp,
// which was taken before the call, has been written. A transaction that writes nothing else has no
// lock for which the read of the rows would have waited; its client writes the notification within
// the request lifetime (I14), 30 s unless Schema.Timing says otherwise, after it has asked for the
// timestamp. Without weak columns it returns at once.
//
// It does not go by timestamps: the oracle's clock may jump. So call it beside ExportRows.
func AwaitWeak(ctx context.Context, e *engine.Engine) error {
	if !e.Meta.HasWeak() {
		return nil
	}
	return retry.Sleep(ctx, e.Store.Timing.RequestLifetime)
}

// ExportWeak streams the rows of table in r with weak notifications that were pending at ts. Read
// all of ExportRows, of every table, before: a transaction that was about to commit below ts when
// its rows were read writes its weak notifications before it commits.
func ExportWeak(ctx context.Context, e *engine.Engine, ts tso.Timestamp, table string, r model.Range) iter.Seq2[model.ExportedRow, error] {
	info, ok := e.Meta.Catalog.Load().UserTable(table)
	if !ok {
		return failedExport(e.Meta.Catalog.Load().UnknownTable(table))
	}
	if len(info.Weak) == 0 {
		return func(func(model.ExportedRow, error) bool) {}
	}
	ctx = store.InBackground(ctx)
	x := &exporter{e: e, ts: ts, info: info, keys: r}
	rows := x.passed(ctx, store.Weak(x.ts))
	// A client that knows of no journal any more notifies without entries.
	if _, err := e.Meta.Refresh(ctx); err != nil {
		return failedExport(err)
	}
	if e.Meta.ByJournal() {
		rows = x.named(ctx, store.Weak(x.ts))
	}
	return x.export(ctx, rows, x.weakRows)
}

func failedExport(err error) iter.Seq2[model.ExportedRow, error] {
	return func(yield func(model.ExportedRow, error) bool) { yield(model.ExportedRow{}, err) }
}

// exporter exports rows of one table.
type exporter struct {
	e    *engine.Engine
	ts   tso.Timestamp
	info *catalog.TableInfo
	keys model.Range
}

// passed reads the rows that q lets through.
func (x *exporter) passed(ctx context.Context, q store.Query) iter.Seq2[[]layout.Row, error] {
	return func(yield func([]layout.Row, error) bool) {
		pages := x.e.Store.NewPass(x.info.Name, x.keys, q, reads.ScanPages).Pages(ctx)
		pages(func(page store.Page, err error) bool { return yield(page.Rows, err) })
	}
}

// named reads the rows that the journal says to have been notified weakly by the snapshot, to
// be parked, or to have been announced since, as a retry of what was parked is.
//
// It reads the streams from their beginning, not from their low positions: what was cleared since
// the snapshot is settled, and has left a trace, and J7 keeps an entry whose rows hold one. What
// was announced after the snapshot stays too, since the hold keeps the safepoint below it.
func (x *exporter) named(ctx context.Context, q store.Query) iter.Seq2[[]layout.Row, error] {
	sel := journal.Selection{Table: x.info.Name, Range: x.keys, Oldest: true, Parked: true, Wants: func(e model.JournalEntry, row model.JournalName) bool {
		return row.Weak && (e.StartTS <= x.ts || e.Primary == (model.Cell{}))
	}}
	return func(yield func([]layout.Row, error) bool) {
		pages := journal.NamedRows(ctx, x.e.Store, sel, q)
		pages(func(page journal.NamedPage, err error) bool { return yield(page.Rows, err) })
	}
}

// export hands out what decode makes of rows; a row without cells is left out.
func (x *exporter) export(ctx context.Context, pages iter.Seq2[[]layout.Row, error], decode func(context.Context, []layout.Row) ([]model.ExportedRow, error)) iter.Seq2[model.ExportedRow, error] {
	return store.Each(pages, func(page []layout.Row) ([]model.ExportedRow, error) {
		rows, err := decode(ctx, page)
		if err == nil { // after everything has been read (I16)
			err = x.e.Meta.CheckRead(ctx, x.ts, x.info.Name)
		}
		return slices.DeleteFunc(rows, func(row model.ExportedRow) bool { return len(row.Cells) == 0 }), err
	})
}
