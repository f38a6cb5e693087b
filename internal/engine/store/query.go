package store

import (
	"encoding/binary"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Query says which cells of a row are wanted. Every read and every predicate of the engine is made
// by one of the functions below, so implementing their shapes simulates a store, and one file shows
// what a real one is sent. As a predicate a query asks whether there is any such cell.
//
// A filter saves the network and the client, not the disk: Bigtable reads every block that holds
// cells of a row. So what a query costs is the cells that it returns.
//
// Rejected: queries that are composed of families, bounds and limits, from which both the filter
// and the answer of a simulated store follow. A mistake in a composition would pass as both: the
// two interpretations of a shape are written apart, and compared.
//
// A field that a shape does not use is zero (TestQueriesSetTheFieldsOfTheirShapes).
type Query struct {
	Shape   Shape
	Variant Variant

	Columns  []string       // those that are wanted; none: all
	Ranges   catalog.Ranges // of columns, in place of names
	Versions []Version
	Column   string // the only one, the first of a span or of two, or a prefix
	Other    string // the last of a span, the second of two, or a second prefix
	Value    []byte // what a cell is compared with

	From  tso.Timestamp // an inclusive bound from below
	At    tso.Timestamp // an inclusive bound on versions, or the start of a transaction; 0: none
	N     int           // versions of each column and family
	Cells int           // cells of the row, or of each family; 0: all
}

// Variant is what some shapes have several of.
type Variant uint8

const (
	Plain         Variant = iota
	WithoutValues         // of ShapeDataAt: whether they are there
	FirstAttempt          // of ShapeConflict and ShapeConflictSpan: every lock is another transaction's
	WithLaterAcks         // of ShapeExported: columns are observed
	WithData              // of ShapeChanged
	OnlyChanges           // of ShapeNewest and ShapeWholeRow: no records of locks and rollbacks
	ChangeRecords         // of ShapeNewest: these records alone
	WithoutData           // of ShapeNewest: locks and records
)

// variant is v if the query is to have it.
func variant(v Variant, has bool) Variant {
	if has {
		return v
	}
	return Plain
}

// Version names one version of a column in the data family.
type Version struct {
	Column  string
	StartTS tso.Timestamp
}

// The read of a snapshot (section 6 of the design).

// Newest is the newest n locks, records and data versions at or below at (0: no bound) of each of
// the columns; of all if none is named. At most 3n cells of a column.
//
// Sent by admin, reads.
func Newest(columns []string, at tso.Timestamp, n int) Query {
	return Query{Shape: ShapeNewest, Columns: columns, At: at, N: n}
}

// OnlyChanges is a query of newest versions in which records of locks and rollbacks do not count:
// the newest record is the one that decides what a reader sees. Bigtable looks at the value of each
// record up to that one.
func (q Query) OnlyChanges() Query {
	q.Variant = OnlyChanges
	return q
}

// AllColumns reports whether a query of newest versions names no columns.
func (q Query) AllColumns() bool { return len(q.Columns) == 0 && len(q.Ranges) == 0 }

// Changes is the newest record at or below at of each of the columns (all if none is named) that
// decides what a reader sees: at most a cell of each. Records of locks and rollbacks do not count.
//
// Sent by reads.
func Changes(columns []string, at tso.Timestamp) Query {
	return Query{Shape: ShapeNewest, Variant: ChangeRecords, Columns: columns, At: at, N: 1}
}

// RecordsAndLocks is the newest n records and locks of each of the columns: at most 2n cells of
// one.
//
// Sent by admin, commit.
func RecordsAndLocks(columns []string, n int) Query {
	return Query{Shape: ShapeNewest, Variant: WithoutData, Columns: columns, N: n}
}

// NewestIn is Newest of the columns that lie in the ranges, of which there is one at least.
//
// Sent by reads.
func NewestIn(columns catalog.Ranges, at tso.Timestamp, n int) Query {
	return Query{Shape: ShapeNewestIn, Ranges: columns, At: at, N: n}
}

// WholeRow is Newest of all columns of a row that has at most n × WholeRowCells cells; of a wider
// one it is that many.
//
// Sent by reads.
func WholeRow(at tso.Timestamp, n int) Query { return Query{Shape: ShapeWholeRow, At: at, N: n} }

// Data is exactly these versions of values: a cell of each.
//
// Sent by admin, reads, watch.
func Data(versions ...Version) Query { return Query{Shape: ShapeDataAt, Versions: versions} }

// HasData is whether a value is there, without the value.
//
// Sent by admin.
func HasData(column string, startTS tso.Timestamp) Query {
	return Query{Shape: ShapeDataAt, Variant: WithoutValues, Versions: []Version{{column, startTS}}}
}

// What decides a transaction: one cell each.

// HeldLock is the lock of transaction startTS on the column: "does it still hold the cell?" (I6,
// I9).
//
// Sent by commit, locks.
func HeldLock(column string, startTS tso.Timestamp) Query {
	return Query{Shape: ShapeHeldLock, Column: column, At: startTS}
}

// Record is the write record, or the rollback marker, of transaction startTS on the column (I8).
//
// Sent by locks.
func Record(column string, startTS tso.Timestamp) Query {
	return Query{Shape: ShapeRecord, Column: column, At: startTS}
}

// Primary is what decides transaction startTS: its record, marker or lock on its primary.
//
// Sent by locks, repair.
func Primary(column string, startTS tso.Timestamp) Query {
	return Query{Shape: ShapePrimary, Column: column, At: startTS}
}

// The predicate of prewrite (I2, I3), which returns no cells: a lock of another transaction, or a
// record at or after startTS, even a rollback marker. On the first attempt every lock is another
// transaction's, which is cheaper to ask.

// Conflict asks for any of the columns.
//
// Sent by commit.
func Conflict(columns []string, startTS tso.Timestamp, first bool) Query {
	return Query{Shape: ShapeConflict, Variant: variant(FirstAttempt, first), Columns: columns, At: startTS}
}

// ConflictSpan is Conflict for all columns from low to high.
//
// Sent by commit.
func ConflictSpan(low, high string, startTS tso.Timestamp, first bool) Query {
	return Query{Shape: ShapeConflictSpan, Variant: variant(FirstAttempt, first), Column: low, Other: high, At: startTS}
}

// Work that is left: notifications and locks.

// AnyNotify is every notify cell of a column.
//
// Sent by gc, as a predicate.
func AnyNotify(column string) Query { return Query{Shape: ShapeAnyNotify, Column: column} }

// Pending is the newest notify cell and lock of each column, for a scan that looks for work: at
// most two cells of a column.
//
// Sent by admin, reads, settle, sweep.
func Pending() Query { return Query{Shape: ShapePending} }

// PendingUpTo is the newest n notify cells at or below at of each column, the newest observer state
// of each, whatever its timestamp, and every lock.
//
// Sent by gc, settle.
func PendingUpTo(at tso.Timestamp, n int) Query {
	return Query{Shape: ShapePendingUpTo, At: at, N: n}
}

// WrittenSince is the newest record of each column at or after ts, without its value.
//
// Sent by reads.
func WrittenSince(ts tso.Timestamp) Query { return Query{Shape: ShapeWrittenSince, At: ts} }

// Locks is every lock at or below at: none where at is 0 or less.
//
// Sent by admin, gc.
func Locks(at tso.Timestamp) Query { return Query{Shape: ShapeLocks, At: at} }

// AllLocks is every lock.
//
// Sent by admin.
func AllLocks() Query { return Query{Shape: ShapeAllLocks} }

// What passes over tables, or over rows that the journal names: collection, repair, export and
// watches. They return much, and are asked at a pace.

// Garbage is what the collector judges by: all locks and records, and where there is data.
//
// Sent by gc.
func Garbage() Query { return Query{Shape: ShapeGarbage} }

// History is all versions of all families, without the values of data.
//
// Sent by gc, repair, sweep, transfer.
func History() Query { return Query{Shape: ShapeHistory} }

// Exported is what an export at a snapshot needs of a row: Newest of all columns at or below at,
// and, where columns are observed, which acknowledgments have later records.
//
// Sent by transfer.
func Exported(at tso.Timestamp, observed bool) Query {
	return Query{Shape: ShapeExported, Variant: variant(WithLaterAcks, observed), At: at, N: 1}
}

// Weak is the weak notifications at or below at, and the traces of those that were cleared later:
// the newest cell of each column.
//
// Sent by transfer.
func Weak(at tso.Timestamp) Query { return Query{Shape: ShapeWeak, At: at} }

// RecordsFrom is every record from a timestamp on up to another one, both inclusive.
//
// Sent by repair, watch.
func RecordsFrom(from, to tso.Timestamp) Query {
	return Query{Shape: ShapeRecordsFrom, From: from, At: to}
}

// Changed is, of each of the columns (all if none is named), every record and every data version
// from a timestamp on up to another one, both inclusive, and every lock at or below that.
//
// Sent by watch.
func Changed(columns []string, from, to tso.Timestamp) Query {
	return Query{Shape: ShapeChanged, Variant: WithData, Columns: columns, From: from, At: to}
}

// ChangedRecords is Changed without data.
//
// Sent by watch.
func ChangedRecords(columns []string, from, to tso.Timestamp) Query {
	return Query{Shape: ShapeChanged, Columns: columns, From: from, At: to}
}

// What an operator asks, and walks of observed columns.

// Records is the newest n records of a column at or below at.
//
// Sent by admin.
func Records(column string, at tso.Timestamp, n int) Query {
	return Query{Shape: ShapeRecords, Column: column, At: at, N: n}
}

// Inspected is the newest n versions of the columns (all if none) and of all reserved ones, at most
// cells of each family, without values of data.
//
// Sent by admin.
func Inspected(columns []string, n, cells int) Query {
	return Query{Shape: ShapeInspected, Columns: columns, N: n, Cells: cells}
}

// Anything is one cell of the row, without its value.
//
// Sent by admin, gc, journal, transfer.
func Anything() Query { return Query{Shape: ShapeAnything} }

// The instance's own tables: the meta family, and the journal.

// Cells is the newest version of each column of the meta family that begins with prefix, at most n
// of them (0: all).
//
// Sent by gc, membership, meta, repair, store.
func Cells(prefix string, n int) Query { return Query{Shape: ShapeCellsOf, Column: prefix, Cells: n} }

// JournalCells is the newest version of each column of the journal.
//
// Sent by journal, repair.
func JournalCells() Query { return Query{Shape: ShapeJournalCells} }

// CellExists is a column of the meta family.
//
// Sent by meta and store, as a predicate.
func CellExists(column string) Query { return Query{Shape: ShapeCellAtLeast, Column: column} }

// CellIs is a column of the meta family if it holds exactly value.
//
// Sent by store, as a predicate.
func CellIs(column string, value []byte) Query {
	return Query{Shape: ShapeCellIs, Column: column, Value: value}
}

// CellBegins is a column of the meta family if what it holds begins with these bytes.
//
// Sent by store, as a predicate.
func CellBegins(column string, beginning []byte) Query {
	return Query{Shape: ShapeCellBegins, Column: column, Value: beginning}
}

// CellAtLeast is a column of the meta family if it holds ts or more.
//
// Sent by gc, as a predicate.
func CellAtLeast(column string, ts tso.Timestamp) Query {
	return Query{Shape: ShapeCellAtLeast, Column: column, Value: encoded(ts)}
}

// EitherCell is two columns of the meta family, if one of them exists.
//
// Sent by transfer, as a predicate.
func EitherCell(a, b string) Query { return Query{Shape: ShapeEitherCell, Column: a, Other: b} }

// SafepointRefused is what forbids the safepoint ts: one above it in column, or a hold, in the
// columns that begin with holds, at or below it.
//
// Sent by meta, as a predicate.
func SafepointRefused(column, holds string, ts tso.Timestamp) Query {
	return Query{Shape: ShapeSafepointRefused, Column: column, Other: holds, Value: encoded(ts + 1)}
}

// HoldRefused is what forbids a hold at ts in the column hold: a safepoint at or above it, in the
// column safepoint, or the hold itself, which a late repetition must not undo.
//
// Sent by meta, as a predicate.
func HoldRefused(safepoint, hold string, ts tso.Timestamp) Query {
	return Query{Shape: ShapeHoldRefused, Column: safepoint, Other: hold, Value: encoded(ts)}
}

func encoded(ts tso.Timestamp) []byte { return binary.BigEndian.AppendUint64(nil, uint64(ts)) }

// WholeRowCells is how many cells a narrow row has, for each version asked for.
const WholeRowCells = 16

// PatternBytes is an upper bound of what a column adds to a query; model.MaxFilterBytes bounds the
// sum.
func PatternBytes(column string) int { return 4*len(column) + 1 }

// RangeBytes is the same for a range of columns, which stands in a query once for each family.
func RangeBytes(r model.Range) int { return len(readFamilies) * (len(r.Start) + len(r.End) + 24) }
