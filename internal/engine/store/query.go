package store

import (
	"encoding/binary"
	"iter"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Query says which cells of a row are wanted. Every read and every predicate of the engine has one
// of the shapes below, so implementing them simulates a store, and one file shows what a real one
// is sent. As a predicate a query asks whether there is any such cell.
type Query struct {
	Shape    Shape
	Columns  []string // or only the first two below
	Ranges   model.Ranges
	Column   string
	High     string        // the last column of a span
	From     tso.Timestamp // an inclusive bound from below
	At       tso.Timestamp // an inclusive bound on versions; 0: none
	N        int           // versions of each column and family
	Cells    int           // cells of the row, or of each family
	Value    []byte
	Flag     bool
	Versions []Version
}

// Version names one version of a column in the data family.
type Version struct {
	Column  string
	StartTS tso.Timestamp
}

// Shape is one of the questions below, of which each has a function that explains it.
type Shape uint8

const (
	ShapeNewest Shape = iota
	ShapeNewestIn
	ShapeWholeRow
	ShapeDataAt
	ShapeHeldLock
	ShapeRecord
	ShapePrimary
	ShapeConflict
	ShapeConflictSpan
	ShapeNotified
	ShapeAnyNotify
	ShapePending
	ShapePendingUpTo
	ShapeWrittenSince
	ShapeLocks
	ShapeAllLocks
	ShapeGarbage
	ShapeExported
	ShapeWeak
	ShapeRecords
	ShapeRecordsAndLocks
	ShapeInspected
	ShapeAnything
	ShapeHistory
	ShapeRecordsFrom
	ShapeChanged
	ShapeCellsOf
	ShapeCellIs
	ShapeCellBegins
	ShapeCellAtLeast
	ShapeEitherCell
	ShapeJournalCells
	ShapeSafepointRefused
	ShapeHoldRefused
)

// Newest is the newest n locks, records and data versions at or below at (0: no bound) of each of
// the columns; of all if none is named. The read of a snapshot (section 6 of the design).
func Newest(columns []string, at tso.Timestamp, n int) Query {
	return Query{Shape: ShapeNewest, Columns: columns, At: at, N: n}
}

// NewestIn is Newest of the columns that lie in the ranges, of which there is one at least.
func NewestIn(columns model.Ranges, at tso.Timestamp, n int) Query {
	return Query{Shape: ShapeNewestIn, Ranges: columns, At: at, N: n}
}

// WholeRow is Newest of all columns of a row that has at most n × WholeRowCells cells; of a wider
// one it is that many.
func WholeRow(at tso.Timestamp, n int) Query { return Query{Shape: ShapeWholeRow, At: at, N: n} }

// Data is exactly these versions of values.
func Data(versions ...Version) Query { return Query{Shape: ShapeDataAt, Versions: versions} }

// HasData is whether a value is there, without the value.
func HasData(column string, startTS tso.Timestamp) Query {
	return Query{Shape: ShapeDataAt, Versions: []Version{{column, startTS}}, Flag: true}
}

// HeldLock is the lock of transaction startTS on the column: "does it still hold the cell?" (I6,
// I9).
func HeldLock(column string, startTS tso.Timestamp) Query {
	return Query{Shape: ShapeHeldLock, Column: column, At: startTS}
}

// Record is the write record, or the rollback marker, of transaction startTS on the column (I8).
func Record(column string, startTS tso.Timestamp) Query {
	return Query{Shape: ShapeRecord, Column: column, At: startTS}
}

// Primary is what decides transaction startTS: its record, marker or lock on its primary.
func Primary(column string, startTS tso.Timestamp) Query {
	return Query{Shape: ShapePrimary, Column: column, At: startTS}
}

// Conflict is the predicate of prewrite (I2, I3): for any of the columns a lock of another
// transaction, or a record at or after startTS, even a rollback marker. On the first attempt every
// lock is another transaction's, which is cheaper to ask.
func Conflict(columns []string, startTS tso.Timestamp, first bool) Query {
	return Query{Shape: ShapeConflict, Columns: columns, At: startTS, Flag: first}
}

// ConflictSpan is Conflict for all columns from low to high.
func ConflictSpan(low, high string, startTS tso.Timestamp, first bool) Query {
	return Query{Shape: ShapeConflictSpan, Column: low, High: high, At: startTS, Flag: first}
}

// Notified is the newest notify cell of a column.
func Notified(column string) Query { return Query{Shape: ShapeNotified, Column: column} }

// AnyNotify is every notify cell of a column.
func AnyNotify(column string) Query { return Query{Shape: ShapeAnyNotify, Column: column} }

// Pending is the newest notify cell and lock of each column, for a scan that looks for work.
func Pending() Query { return Query{Shape: ShapePending} }

// PendingUpTo is the newest n notify cells at or below at of each column, the newest observer state
// of each, whatever its timestamp, and every lock.
func PendingUpTo(at tso.Timestamp, n int) Query {
	return Query{Shape: ShapePendingUpTo, At: at, N: n}
}

// WrittenSince is the newest record of each column at or after ts, without its value.
func WrittenSince(ts tso.Timestamp) Query { return Query{Shape: ShapeWrittenSince, At: ts} }

// Locks is every lock at or below at: none where at is 0 or less.
func Locks(at tso.Timestamp) Query { return Query{Shape: ShapeLocks, At: at} }

// AllLocks is every lock.
func AllLocks() Query { return Query{Shape: ShapeAllLocks} }

// Garbage is what the collector judges by: all locks and records, and where there is data.
func Garbage() Query { return Query{Shape: ShapeGarbage} }

// Exported is what an export at a snapshot needs of a row: Newest of all columns at or below at,
// and, where columns are observed, which acknowledgments have later records.
func Exported(at tso.Timestamp, observed bool) Query {
	return Query{Shape: ShapeExported, At: at, N: 1, Flag: observed}
}

// Weak is the weak notifications at or below at, and the traces of those that were cleared later.
func Weak(at tso.Timestamp) Query { return Query{Shape: ShapeWeak, At: at} }

// Records is the newest n records of a column at or below at.
func Records(column string, at tso.Timestamp, n int) Query {
	return Query{Shape: ShapeRecords, Column: column, At: at, N: n}
}

// RecordsAndLocks is the newest n records and locks of each of the columns.
func RecordsAndLocks(columns []string, n int) Query {
	return Query{Shape: ShapeRecordsAndLocks, Columns: columns, N: n}
}

// Inspected is the newest n versions of the columns (all if none) and of all reserved ones, at most
// cells of each family, without values of data.
func Inspected(columns []string, n, cells int) Query {
	return Query{Shape: ShapeInspected, Columns: columns, N: n, Cells: cells}
}

// Anything is one cell of the row, without its value.
func Anything() Query { return Query{Shape: ShapeAnything} }

// History is all versions of all families, without the values of data.
func History() Query { return Query{Shape: ShapeHistory} }

// RecordsFrom is every record from a timestamp on up to another one, both inclusive.
func RecordsFrom(from, to tso.Timestamp) Query {
	return Query{Shape: ShapeRecordsFrom, From: from, At: to}
}

// Changed is, of each of the columns (all if none is named), every record and every data version
// from a timestamp on up to another one, both inclusive, and every lock at or below that.
func Changed(columns []string, from, to tso.Timestamp) Query {
	return Query{Shape: ShapeChanged, Columns: columns, From: from, At: to, Flag: true}
}

// ChangedRecords is Changed without data.
func ChangedRecords(columns []string, from, to tso.Timestamp) Query {
	return Query{Shape: ShapeChanged, Columns: columns, From: from, At: to}
}

// Cells is the newest version of each column of the meta family that begins with prefix, at most n
// of them (0: all).
func Cells(prefix string, n int) Query { return Query{Shape: ShapeCellsOf, Column: prefix, Cells: n} }

// JournalCells is the newest version of each column of the journal.
func JournalCells() Query { return Query{Shape: ShapeJournalCells} }

// CellExists is a column of the meta family.
func CellExists(column string) Query { return Query{Shape: ShapeCellAtLeast, Column: column} }

// CellIs is a column of the meta family if it holds exactly value.
func CellIs(column string, value []byte) Query {
	return Query{Shape: ShapeCellIs, Column: column, Value: value}
}

// CellBegins is a column of the meta family if what it holds begins with these bytes.
func CellBegins(column string, beginning []byte) Query {
	return Query{Shape: ShapeCellBegins, Column: column, Value: beginning}
}

// CellAtLeast is a column of the meta family if it holds ts or more.
func CellAtLeast(column string, ts tso.Timestamp) Query {
	return Query{Shape: ShapeCellAtLeast, Column: column, Value: encoded(ts)}
}

// EitherCell is two columns of the meta family, if one of them exists.
func EitherCell(a, b string) Query { return Query{Shape: ShapeEitherCell, Column: a, High: b} }

// SafepointRefused is what forbids the safepoint ts: one above it in column, or a hold, in the
// columns that begin with holds, at or below it.
func SafepointRefused(column, holds string, ts tso.Timestamp) Query {
	return Query{Shape: ShapeSafepointRefused, Column: column, High: holds, Value: encoded(ts + 1)}
}

// HoldRefused is what forbids a hold at ts in the column hold: a safepoint at or above it, in the
// column safepoint, or the hold itself, which a late repetition must not undo.
func HoldRefused(safepoint, hold string, ts tso.Timestamp) Query {
	return Query{Shape: ShapeHoldRefused, Column: safepoint, High: hold, Value: encoded(ts)}
}

func encoded(ts tso.Timestamp) []byte { return binary.BigEndian.AppendUint64(nil, uint64(ts)) }

// WholeRowCells is how many cells a narrow row has, for each version asked for.
const WholeRowCells = 16

// PatternBytes is an upper bound of what a column adds to a query; model.MaxFilterBytes bounds the
// sum.
func PatternBytes(column string) int { return 4*len(column) + 1 }

// RangeBytes is the same for a range of columns, which stands in a query once for each family.
func RangeBytes(r model.Range) int { return len(readFamilies) * (len(r.Start) + len(r.End) + 24) }

// RequestKeyBytes bounds the keys of one read: Bigtable takes requests of 512 KiB.
const RequestKeyBytes = 480 << 10

// Rows names the rows of a read; the zero value is all of them.
type Rows struct {
	Keys    []string // these, if not nil
	Ranges  model.Ranges
	Reverse bool // ranges are read from the last key to the first; nothing within a row changes
}

// Prefix is where the rows begin with p.
func Prefix(p string) Rows { return In(model.Prefix(p)) }

// From is the rows from a key on.
func From(key string) Rows { return In(model.Between(key, "")) }

// In is the rows of a range.
func In(r model.Range) Rows { return Rows{Ranges: model.Ranges{r}} }

// nameable is as many of the ranges as one request may name: those with which the read begins.
func (rows Rows) nameable(rs model.Ranges) model.Ranges {
	n, bytes := 0, 0
	for n < len(rs) && n < RequestRows {
		next := rs[n]
		if rows.Reverse {
			next = rs[len(rs)-1-n]
		}
		if bytes += len(next.Start) + len(next.End); n > 0 && bytes > RequestKeyBytes {
			break
		}
		n++
	}
	if rows.Reverse {
		return rs[len(rs)-n:]
	}
	return rs[:n]
}

// behind is what is left of a range once the read has come past a key.
func (rows Rows) behind(r model.Range, key string) model.Range {
	if !rows.Reverse {
		r.Start = max(r.Start, key+"\x00")
	} else if r.End == "" || key < r.End {
		r.End = key
	}
	return r
}

// after is what is left of a range once the read has come to the end of another one.
func (rows Rows) after(r, done model.Range) model.Range {
	if rows.Reverse {
		r.End = done.Start
	} else {
		r.Start = done.End
	}
	return r
}

// KeyChunks cuts keys to what one request may name.
func KeyChunks(keys []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for len(keys) > 0 {
			n, bytes := 0, 0
			for n < len(keys) && n < RequestRows && (n == 0 || bytes+len(keys[n]) <= RequestKeyBytes) {
				bytes += len(keys[n])
				n++
			}
			if !yield(keys[:n:n]) {
				return
			}
			keys = keys[n:]
		}
	}
}
