package percolator

import (
	"github.com/gopercolator/percolator/internal/model"
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
	// MaxTxnBytes is the most that one transaction buffers: keys and values.
	MaxTxnBytes = model.MaxTxnBytes
)

// Cell{Table, Row, Column string} names one cell. Table is a table of the schema; Row and Column
// are byte strings. String quotes them, so that no byte can damage a terminal or a log.
type Cell = model.Cell

// Entry{Cell Cell; Value []byte; CommitTS tso.Timestamp} is one cell with its value in a snapshot.
// Value is the caller's own copy. CommitTS is when the value was committed; it is 0 for a write
// that the reading transaction has buffered.
type Entry = model.Entry

// Range{Start, End string} is a half-open range [Start, End) of row keys, or of values for
// ScanIndex. An empty End is unbounded; the zero Range is everything.
type Range = model.Range

// All is every row.
func All() Range { return model.All() }

// Row is the one row with this key.
func Row(key string) Range { return model.Row(key) }

// Between is the half-open range from ≤ key < to; an empty to is unbounded.
func Between(from, to string) Range { return model.Between(from, to) }

// Prefix is every row whose key begins with p.
func Prefix(p string) Range { return model.Prefix(p) }
