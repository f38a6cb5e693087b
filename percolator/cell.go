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
	// MaxValueBytes, 100 MiB, is the largest value. Bigtable advises against values over 10 MB.
	MaxValueBytes = model.MaxValueBytes
	// MaxColumnsPerRow is how many cells of one row a transaction can write: the commit of a row is
	// one request.
	MaxColumnsPerRow = model.MaxColumnsPerRow
	// MaxColumnRanges, 100, is how many ranges of columns one scan may name (ScanOptions).
	MaxColumnRanges = model.MaxColumnRanges
	// MaxTxnBytes is the most that one transaction buffers: keys and values.
	MaxTxnBytes = model.MaxTxnBytes
)

// Cell names one cell.
type Cell = model.Cell

// Entry is one cell with its value in a snapshot.
type Entry = model.Entry

// Range is a half-open range [Start, End) of row keys, of values of an index, or of column
// names. An empty End is unbounded; the zero Range is everything.
type Range = model.Range

// ScanOptions select the cells that ScanWith reads: by row and by column, or by index.
type ScanOptions = model.ScanOptions

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
