// Package model declares the types that percolator, its tools and its engine share: cells, ranges,
// schemas, locks, notifications, holds, plans, reports and errors. Programs name most of them by
// package percolator; tools, what package admin takes and returns. It knows neither the store nor
// the layout of a cell in it.
package model

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/tso"
)

// Limits, enforced before anything is sent. The first four are Bigtable's own, which its emulator
// does not enforce.
const (
	// MaxRowKeyBytes is the longest row key. Row keys may hold any bytes and may not be empty.
	MaxRowKeyBytes = 4096
	// MaxColumnBytes is the longest column name. Column names may hold any byte but 0x00 and may
	// not be empty.
	MaxColumnBytes = 2048
	// MaxValueBytes is the largest value. Bigtable advises against values over 10 MB.
	MaxValueBytes = 100 << 20
	// MaxMutationsPerRow is Bigtable's limit for one request on one row. Bigtable refuses requests
	// beyond it, and the library sends none.
	MaxMutationsPerRow = 100_000
	// MaxColumnsPerRow is how many cells of one row a transaction can write: one request commits
	// the row, with at most three mutations a cell (I6).
	MaxColumnsPerRow = 30_000
	// MaxTxnBytes bounds the keys and values that one transaction buffers.
	MaxTxnBytes = 512 << 20
	// MaxFilterBytes keeps predicates below Bigtable's 20 KB, with room for the frame around the
	// columns. A read whose columns are beyond it takes several requests; the columns of a struct
	// may take so much, 4 bytes for each byte of a name, and RowOf returns ErrTooLarge beyond it.
	MaxFilterBytes = 16 << 10
)

// Cell names one cell. Table is a table of the schema; Row and Column are byte strings.
type Cell struct{ Table, Row, Column string }

// String quotes row and column, so that no byte of them can damage a terminal or a log. It omits
// the row of an index entry, which is a value.
func (c Cell) String() string {
	table := c.Table
	// Such a name comes from a damaged lock.
	if strings.ContainsFunc(table, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		table = strconv.Quote(table)
	}
	if strings.Contains(c.Table, ".") {
		return table + "/…/" + strconv.Quote(c.Column)
	}
	return fmt.Sprintf("%s/%s/%s", table, strconv.Quote(c.Row), strconv.Quote(c.Column))
}

// Entry is one cell with its value in a snapshot.
type Entry struct {
	Cell     Cell
	Value    []byte        // the caller's own copy
	CommitTS tso.Timestamp // of its commit; 0 for the transaction's own buffered write
	Expires  tso.Timestamp // snapshots from here on do not see it; 0: it does not expire
}

// Range is a half-open range [Start, End) of row keys (or of values, for ScanIndex). An empty End
// is unbounded. The zero Range is everything.
type Range struct{ Start, End string }

// All is every row.
func All() Range { return Range{} }

// Row is the one row with this key.
func Row(key string) Range { return Range{Start: key, End: key + "\x00"} }

// Between is the half-open range start ≤ key < end; an empty end is unbounded.
func Between(start, end string) Range { return Range{Start: start, End: end} }

// Prefix is every key that begins with p.
func Prefix(p string) Range {
	end := []byte(p)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) > 0 {
		end[len(end)-1]++
	}
	return Range{Start: p, End: string(end)}
}
