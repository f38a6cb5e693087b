// Package admin is what operators and tools call: schemas, inspection, locks, indexes, collection
// and holds, notifications, workers, exports, restores and repairs of one instance.
//
// Programs that only read and write use package percolator.
//
// # Words
//
// The safepoint is the timestamp at or below which reads are refused: versions that only such reads
// need may go. The GC watermark follows it: nothing newer has been removed. A hold keeps both below
// a timestamp. To drain is to wait, after a change of the schema or the safepoint was stored, until
// no client acts on what was there before and none of its requests can arrive any more: 80 s by
// default.
//
// The journal lists the transactions that notify, so that the work they cause is found without a
// search of the tables. Each client appends entries, one for a transaction, to a few streams of its
// own. An entry is settled when its transaction is decided, and its rows hold no lock of it and no
// notification that an observer has yet to handle. When a client's session has ended, a worker
// adopts its streams: it resolves what the client left and runs the observers. A sweep passes all
// rows of all tables instead, once a week, for what the journal has missed.
package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/internal/repair"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Admin inspects and operates the instance of a client. It shares the client's connections; there
// is nothing to close. All methods may be called concurrently.
type Admin struct{ e *engine.Engine }

// New returns the Admin of the instance that c is connected to.
func New(c *percolator.Client) *Admin { return &Admin{c.Engine()} }

// Oracle returns the oracle that the client uses: Config.Oracle, or the one that NewClient has
// dialed. It may offer more than timestamps (coordination.Sessions, coordination.RowLocks,
// coordination.Hints). Do not close it while the client is in use.
func (a *Admin) Oracle() tso.Oracle { return a.e.Clock.Oracle }

// SampleRowKeys lists the end keys of the table's tablets in order. Bigtable may know few or none
// of them. Errors: those of the store.
func (a *Admin) SampleRowKeys(ctx context.Context, table string) ([]string, error) {
	return a.e.Reads.SampleRowKeys(ctx, table)
}

// EncodeSchema returns the stored form of a schema: JSON in a fixed order, without Splits. Equal
// schemas have equal encodings.
func EncodeSchema(s *percolator.Schema) []byte { return catalog.EncodeSchema(s) }

// DecodeSchema is the inverse of EncodeSchema. ErrSchemaMismatch: b is of another format, which the
// error names with the remedy. ErrCorrupt: CreateSchema would not store b.
func DecodeSchema(b []byte) (*percolator.Schema, error) {
	s, err := catalog.DecodeSchema(b)
	switch {
	case errors.Is(err, model.ErrSchemaMismatch):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("percolator: %w: a schema that cannot be decoded: %w", model.ErrCorrupt, err)
	}
	return s, nil
}

// ExportRows streams the rows of table in r as of ts, in row order: values, deletions for which an
// observer may still have to run, and the unfinished work of observers for both. Without a hold on
// ts the stream may end with ErrSnapshotTooOld. Memory: one page, at most 4096 rows or, beyond its
// last row, about 4 MiB; where so few rows have anything to export that a request is cut off, 16
// MiB that are read ahead. [backup.Run] writes whole backups.
//
// [backup.Run]: https://pkg.go.dev/github.com/gopercolator/percolator/percolator/backup#Run
func (a *Admin) ExportRows(ctx context.Context, ts tso.Timestamp, table string, r percolator.Range) iter.Seq2[model.ExportedRow, error] {
	return transfer.ExportRows(ctx, a.e, ts, table, r)
}

// ExportWeak streams the rows of table in r with weak notifications that were pending at ts. Read
// all of ExportRows, of every table, before, and wait for Timing.RequestLifetime: a transaction
// that was about to commit below ts when its rows were read writes its weak notifications before it
// commits.
func (a *Admin) ExportWeak(ctx context.Context, ts tso.Timestamp, table string, r percolator.Range) iter.Seq2[model.ExportedRow, error] {
	return transfer.ExportWeak(ctx, a.e, ts, table, r)
}

// ResolveLock resolves a lock that ScanPending or ListLocks returned, if it can be resolved now; it
// never waits for the lock's owner. The lock may have been resolved, and even collected, since:
// only what the cell holds counts. Errors: ErrCorrupt for a lock that contradicts the protocol, and
// those of the store and the oracle.
func (a *Admin) ResolveLock(ctx context.Context, l model.Lock) (model.Resolution, error) {
	return a.e.Locks.ResolveLock(ctx, l)
}

// ScanPending streams, in row order, the rows of table in r that carry notify or lock cells. It
// needs both to find all work: a crash between the commit point and a secondary leaves an observed
// cell locked and without its notify cell (section 2.4 of the paper). Bigtable passes over the
// clean rows in between, and the stream lasts until r is done or ctx ends.
func (a *Admin) ScanPending(ctx context.Context, table string, r percolator.Range) iter.Seq2[model.Pending, error] {
	return a.e.Reads.ScanPending(store.InBackground(ctx), table, r)
}

// RetryParked lets workers run a parked observer again: it erases the observer state, and the
// notification is still there. It does not affect other observers of the cell. A request of the
// worker that parked it may be late by the request lifetime (I14) and park it once more.
func (a *Admin) RetryParked(ctx context.Context, s model.ObserverState) error {
	return a.e.Commits.RetryParked(ctx, s)
}

// DropParked gives up on the change for which an observer is parked, as if the observer had run and
// written nothing. For an observed column it commits the acknowledgment first, so that an
// interrupted drop can be repeated. ErrConflict: the cell has changed since the worker parked it,
// so workers run the observer again by themselves.
func (a *Admin) DropParked(ctx context.Context, s model.ObserverState) error {
	return a.e.Commits.DropParked(ctx, s)
}

// ClearNotification erases the notify cells of cell with timestamps up to upTo, in the background.
// The caller has established that no observer of the cell has work left up to then (I13); a later
// change keeps its notification. Errors: ErrConflict if a repair has ended at or after upTo, and
// ErrRepairing.
func (a *Admin) ClearNotification(ctx context.Context, cell percolator.Cell, upTo tso.Timestamp) error {
	return a.e.Commits.ClearNotification(ctx, cell, upTo)
}

// Repair brings the instance to what it was at opts.To. It is for tables whose rows were copied at
// different times, all later than opts.To: native backups, or a replica that took over
// (docs/DISASTER.md). It returns when all clients can use the instance again. If it is interrupted,
// the same call resumes it. Memory: 100,000 locks, a page of each of four tables, 100 MB for the
// audit.
//
// Errors: ErrSnapshotTooOld if collection has passed opts.To, or an earlier repair has removed it;
// ErrInvalidArgument if it lies in the oracle's future; ErrRestoring, and ErrRepairing for a repair
// to another timestamp; ErrNotHeld, ErrOracleBehind, ErrRepairFindings; ErrConflict if another
// process continues it; those of the store.
func (a *Admin) Repair(ctx context.Context, opts model.RepairOptions) (model.RepairReport, error) {
	return repair.Run(ctx, a.e, opts)
}

// MaxRowKeys is how many keys RowKeys lists. Beyond it RowKeys returns ErrInvalidArgument.
const MaxRowKeys = 1000

// RowKeys lists the first keys in r of rows of a table that hold anything, be it a lock or what
// awaits collection, in order and at most limit (1 to MaxRowKeys) of them. more tells whether there
// are others. It reads one cell of each row, resolves no lock, and returns no values. Errors:
// ErrInvalidArgument for the limit, ErrSchemaMismatch for a table that is not in the schema, the
// store's, and the context's.
func (a *Admin) RowKeys(ctx context.Context, table string, r percolator.Range, limit int) (keys []string, more bool, err error) {
	if limit < 1 || limit > MaxRowKeys {
		return nil, false, fmt.Errorf("percolator: %w: RowKeys: a limit of %d, not 1 to %d", model.ErrInvalidArgument, limit, MaxRowKeys)
	}
	if err := a.e.Meta.RequireTable(ctx, table); err != nil {
		return nil, false, err
	}
	ctx = store.InBackground(ctx)
	for {
		page, err := a.e.Store.ReadPage(ctx, table, r, store.Anything(), store.PageSize{Rows: limit + 1 - len(keys)})
		if err != nil {
			return nil, false, err
		}
		keys = append(keys, ordered.Map(page.Rows, func(row layout.Row) string { return row.Key })...)
		if len(keys) > limit {
			return keys[:limit], true, nil
		}
		if r = page.Rest; !page.More {
			return keys, false, nil
		}
	}
}

// Workers lists the live workers: those whose lease lasts and whose session has not ended, as far
// as the oracle says. It costs one read, one timestamp, and one question to an oracle that keeps
// sessions. It leaves the entries of dead workers to the workers.
func (a *Admin) Workers(ctx context.Context) (model.Workers, error) {
	seen, err := membership.Directory{Engine: a.e}.Inspect(ctx)
	return seen.Workers, err
}

// Reports lists the reports of live clients and workers, by host and process, at most
// model.MaxReports, 1,280: those that have not expired and whose session has not ended, as far as
// the oracle says. It costs one read, one question to an oracle that keeps sessions, and a
// timestamp if the client has not got any lately. It omits what it cannot decode.
func (a *Admin) Reports(ctx context.Context) ([]model.Report, error) {
	return membership.Reports(ctx, a.e)
}
