package percolator

import (
	"github.com/gopercolator/percolator/percolator/model"
)

// Limits, checked before anything is sent.
const (
	// MaxRowKeyBytes is the longest row key. Row keys may hold any bytes and may not be empty.
	MaxRowKeyBytes = model.MaxRowKeyBytes
	// MaxColumnBytes is the longest column name. Column names may hold any byte but 0x00 and may
	// not be empty.
	MaxColumnBytes = model.MaxColumnBytes
	// MaxValueBytes is the largest value. Bigtable advises against values over 10 MB.
	MaxValueBytes = model.MaxValueBytes
	// MaxColumnsPerRow is how many cells of one row a transaction can write: the commit of a row is
	// one request.
	MaxColumnsPerRow = model.MaxColumnsPerRow
	// MaxColumnRanges is how many ranges of columns a scan names (ScanOptions).
	MaxColumnRanges = model.MaxColumnRanges
	// MaxTxnBytes is the most that one transaction buffers: keys and values.
	MaxTxnBytes = model.MaxTxnBytes
)

// Cell{Table, Row, Column string} names one cell. Table is a table of the schema; Row and Column
// are byte strings. String quotes them, so that no byte can damage a terminal or a log.
type Cell = model.Cell

// Entry{Cell Cell; Value []byte; CommitTS, Expires tso.Timestamp} is one cell with its value in a
// snapshot. Value is the caller's own copy. CommitTS is when the value was committed; it is 0 for a
// write that the reading transaction has buffered. Snapshots from Expires on do not see the value;
// 0: it does not expire.
type Entry = model.Entry

// Range{Start, End string} is a half-open range [Start, End) of row keys, of values for ScanIndex,
// or of column names for ScanWith. An empty End is unbounded; the zero Range is everything.
type Range = model.Range

// ScanOptions{Rows []Range; Columns []string; ColumnRanges []Range; Reverse bool; Limit int} select
// the cells that ScanWith reads: those in one of the rows, and in a column that is named or lies in
// one of the ranges. Without Rows they are of all rows, without both Columns and ColumnRanges of
// all columns. Ranges may overlap and come in any order; an empty one selects nothing, and is not
// the same as none.
//
// With Reverse the rows come from the last key to the first; the columns of a row ascend as ever.
// Limit ends the scan after so many rows of which it has given an entry; 0 is no limit, and less is
// ErrInvalidArgument. A scan with a limit asks for no more rows than it lacks, or for as many as it
// has found without an entry if those are more. What a transaction has written itself counts like
// the rest.
//
// Cost: one request names up to 512 ranges of rows (480 KiB), so a few ranges cost as many requests
// as one that has as many rows; Bigtable passes over what lies in the ranges, and skips the rest.
// Columns are a filter: Bigtable sends only those, and still passes over every byte of each row,
// old versions and other columns too. A tenth of a wide row saves nine tenths of the sending and
// nothing of the reading, so keep such rows to some megabytes.
//
// Limits: a filter holds some 16 KiB. Columns without ColumnRanges take up to 4 bytes for each byte
// of a name. With ColumnRanges, a name counts as a range; when those that overlap or touch are one,
// there may be MaxColumnRanges, and each takes 3 times the bytes of its two bounds and 24 more.
// Beyond that: ErrTooLarge, before anything is sent.
type ScanOptions = model.ScanOptions

// ScanIndexOptions{Values Range; Reverse bool; Limit int} select what ScanIndexWith reads: the
// entries of an index whose value lies in Values, of all values if that is the zero Range. With
// Reverse they come from the last to the first. Limit ends the scan after so many entries; 0 is no
// limit.
type ScanIndexOptions = model.ScanIndexOptions

// All is every row.
func All() Range { return model.All() }

// Row is the one row with this key, or the one column with this name.
func Row(key string) Range { return model.Row(key) }

// Exactly is the one value of an index that has these bytes; Column.Exactly is for typed ones.
func Exactly(value []byte) Range { return Row(string(value)) }

// Between is the half-open range from ≤ key < to; an empty to is unbounded.
func Between(from, to string) Range { return model.Between(from, to) }

// Prefix is every row whose key begins with p.
func Prefix(p string) Range { return model.Prefix(p) }
