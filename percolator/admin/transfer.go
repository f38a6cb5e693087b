package admin

import (
	"context"
	"iter"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/tso"
)

// ExportKind says what an exported cell is.
type ExportKind = transfer.ExportKind

// ExportedCell is one cell of an export:
//
//	Column string
//	Kind   ExportKind
//	Value  []byte // of ExportedPut; the caller's own
//
//	Notified     bool            // workers have to look at it; always so but for ExportedPut
//	Acknowledged []string        // observers whose last run saw this change, in order
//	Parked       []ObserverState // observers that are parked for this change
type ExportedCell = transfer.ExportedCell

// ExportedRow is a row of an export, with its cells in the order of their columns:
//
//	Row   string
//	Cells []ExportedCell
type ExportedRow = transfer.ExportedRow

// Restore is a restore under way. Its methods may be called concurrently.
//
// WriteRows(ctx, table, rows) writes rows of an export into a table, with the entries of its
// indexes; writing a row again does no harm. A row may come in parts, but a cell must not. Errors:
// ErrInvalidArgument, ErrTooLarge and ErrSchemaMismatch for what no export of this schema contains;
// those of the store, after which some of the rows may have been written.
//
// Finish(ctx) lifts the fence after the caller has written everything; ErrConflict: the fence is no
// longer this restore's. CheckWritten(ctx, tables...) checks, before a restore continues, that none
// of the tables into which it has written rows is empty; ErrConflict: one was emptied since.
// CommitTimestamp() is the commit timestamp of all values that the restore writes.
type Restore = transfer.Restore

// The kinds of exported cells.
const (
	ExportedPut    = transfer.ExportedPut    // a value
	ExportedDelete = transfer.ExportedDelete // a deletion that some observer may not have seen
	ExportedWeak   = transfer.ExportedWeak   // a weak notification
)

// ErrNotEmpty: a restore needs empty tables, an import an empty one.
var ErrNotEmpty = transfer.ErrNotEmpty

// ErrRestoring: a restore into the instance has begun and has not finished, so the data is not
// complete. Run the restore to its end.
var ErrRestoring = meta.ErrRestoring

// PrepareRestore makes an instance ready for NewClient and BeginRestore: if it has no schema,
// PrepareRestore stores the fence, and then creates s and its tables. Otherwise the stored schema
// has to be s (ErrSchemaMismatch). appProfile is as for ApplySchema, id names the backup. The call
// can be repeated.
func PrepareRestore(ctx context.Context, project, instance, appProfile, id string, s *percolator.Schema, opts ...option.ClientOption) error {
	return transfer.PrepareRestore(ctx, project, instance, appProfile, id, s, opts...)
}

// BeginExport takes a hold for an export and returns the timestamp to export at. If the schema has
// weak columns it waits in between until every client knows of the hold (RequestLifetime and
// MetaMaxAge of Schema.Timing and a little more; 80 s by default), and tells waiting, if that is
// not nil, for how long. ttl is as for TakeHold, but longer than that wait (ErrInvalidArgument).
func (a *Admin) BeginExport(ctx context.Context, ttl time.Duration, reason string, waiting func(time.Duration)) (Hold, tso.Timestamp, error) {
	return transfer.BeginExport(ctx, a.e, ttl, reason, waiting)
}

// ExportRows streams what a snapshot at ts holds of the rows of table in r, in row order: all
// values, deletions that observers may not know of, and what observers have to do about either.
// Without a hold on ts (BeginExport) the stream may end with ErrSnapshotTooOld. Memory: one page,
// at most 4096 rows or, beyond its last row, about 4 MiB; where so few rows have anything to export
// that a request is cut off, 16 MiB that are read ahead.
func (a *Admin) ExportRows(ctx context.Context, ts tso.Timestamp, table string, r percolator.Range) iter.Seq2[ExportedRow, error] {
	return transfer.ExportRows(store.InBackground(ctx), a.e, ts, table, r)
}

// AwaitWeak waits, before ExportWeak, until every weak notification below an export's timestamp,
// which was taken before the call, has been written. A transaction that writes nothing else has no
// lock for which the read of the rows would have waited; its client writes the notification within
// the request lifetime (I14), 30 s unless Schema.Timing says otherwise, after it has asked for the
// timestamp. Without weak columns it returns at once.
//
// It does not go by timestamps: the oracle's clock may jump. So call it beside ExportRows.
func (a *Admin) AwaitWeak(ctx context.Context) error { return transfer.AwaitWeak(ctx, a.e) }

// ExportWeak streams the rows of table in r with weak notifications that were pending at ts. Read
// all of ExportRows, of every table, before: a transaction that was about to commit below ts when
// its rows were read writes its weak notifications before it commits.
func (a *Admin) ExportWeak(ctx context.Context, ts tso.Timestamp, table string, r percolator.Range) iter.Seq2[ExportedRow, error] {
	return transfer.ExportWeak(store.InBackground(ctx), a.e, ts, table, r)
}

// BeginRestore fences the instance, or takes up an interrupted restore of the same backup. Every
// table of the schema has to be empty (ErrNotEmpty, which leaves the instance as it was).
// incomplete lists indexes, as TABLE.INDEX, that BackfillIndex has to build afterwards. If clients
// may be using the instance it waits until all of them must know of the fence, and tells waiting,
// if that is not nil, for how long. ErrRestoring: a restore of another backup is unfinished.
func (a *Admin) BeginRestore(ctx context.Context, id string, incomplete []string, waiting func(time.Duration)) (*Restore, error) {
	return transfer.BeginRestore(ctx, a.e, id, incomplete, waiting)
}

// AbandonRestore lifts the fence of an unfinished restore, once the caller has removed everything
// that it wrote: all tables have to be empty (ErrNotEmpty). Without an unfinished restore it does
// nothing.
func (a *Admin) AbandonRestore(ctx context.Context) error {
	return transfer.AbandonRestore(ctx, a.e)
}

// IncompleteIndexes lists the indexes, as TABLE.INDEX, that were not complete at ts: two rows may
// hold the same value of a unique one.
func (a *Admin) IncompleteIndexes(ctx context.Context, ts tso.Timestamp) (names []string, err error) {
	return a.e.Meta.IncompleteIndexes(ctx, ts)
}
