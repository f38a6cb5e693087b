package store

import (
	"encoding/binary"
	"slices"
	"strings"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/tso"
)

// Filters name columns by ranges or by patterns in which every byte that is not a letter or digit is escaped: a
// column filter is a regular expression, in which "a.b" also matches "axb" and ".*" misses a newline.

const hexDigits = "0123456789abcdef"

// pattern matches exactly the given column names.
func pattern(columns []string) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteByte('|')
		}
		for j := 0; j < len(c); j++ {
			if ch := c[j]; ch >= '0' && ch <= '9' || ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' {
				b.WriteByte(ch)
			} else {
				b.WriteString(`\x`)
				b.WriteByte(hexDigits[ch>>4])
				b.WriteByte(hexDigits[ch&15])
			}
		}
	}
	return b.String()
}

// PatternBytes is an upper bound of what a column adds to a pattern.
func PatternBytes(column string) int { return 4*len(column) + 1 }

// OneColumn selects one column of one family.
func OneColumn(family, column string) bigtable.Filter {
	return bigtable.ColumnRangeFilter(family, column, column+"\x00")
}

// From and UpTo are bounds on cell timestamps, both inclusive. An end of 0 would mean unbounded.
func From(ts tso.Timestamp) bigtable.Filter {
	return bigtable.TimestampRangeFilterMicros(layout.CellTime(ts), 0)
}

func UpTo(ts tso.Timestamp) bigtable.Filter {
	return bigtable.TimestampRangeFilterMicros(0, layout.CellTime(ts+1))
}

func Exactly(ts tso.Timestamp) bigtable.Filter {
	return bigtable.TimestampRangeFilterMicros(layout.CellTime(ts), layout.CellTime(ts+1))
}

// SnapshotFilter returns, for each of the columns (all if none), the newest n locks, write records and data versions
// at or below ts. ts = 0 sets no bound.
//
// A few columns are named by ranges, many by a pattern that comes last: the emulator compiles a pattern anew for every cell
// that reaches it, and took four times as long over a scan with the pattern in front.
func SnapshotFilter(columns []string, ts tso.Timestamp, n int) bigtable.Filter {
	parts := make([]bigtable.Filter, 0, 3)
	ranges := rangesOf(columns)
	if ranges != nil {
		parts = append(parts, bigtable.InterleaveFilters(ranges...))
	}
	if ts != 0 {
		parts = append(parts, UpTo(ts))
	}
	parts = append(parts, bigtable.LatestNFilter(n))
	if ranges == nil && len(columns) > 0 {
		parts = append(parts, bigtable.ColumnFilter(pattern(columns)))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return bigtable.ChainFilters(parts...)
}

// rangesOf names a few short columns by ranges, in the three families of a read; nil when there are too many for that.
func rangesOf(columns []string) []bigtable.Filter {
	const most, bytes = 4, 512
	size := 0
	for _, c := range columns {
		size += len(c)
	}
	if len(columns) == 0 || len(columns) > most || size > bytes {
		return nil
	}
	out := make([]bigtable.Filter, 0, 3*len(columns))
	for _, family := range [...]string{layout.LockFamily, layout.WriteFamily, layout.DataFamily} {
		for _, c := range columns {
			out = append(out, OneColumn(family, c))
		}
	}
	return out
}

// ConflictFilter is the predicate of prewrite (I2, I3): for any of the columns a lock of another transaction, or a write
// record at or after StartTS, be it only a rollback marker. For a request that is sent for the first time any lock is another
// transaction's, which is cheaper to ask.
func ConflictFilter(columns []string, startTS tso.Timestamp, first bool) bigtable.Filter {
	if len(columns) == 1 {
		return SpanFilter(columns[0], columns[0], startTS, first)
	}
	locks := bigtable.ColumnRangeFilter(layout.LockFamily, "", "")
	return bigtable.ChainFilters(
		bigtable.ColumnFilter(pattern(columns)),
		bigtable.InterleaveFilters(append(conflictingLocks(locks, startTS, first),
			bigtable.ChainFilters(bigtable.ColumnRangeFilter(layout.WriteFamily, "", ""), newerThan(startTS)))...))
}

// SpanFilter is ConflictFilter for all columns from low to high.
func SpanFilter(low, high string, startTS tso.Timestamp, first bool) bigtable.Filter {
	span := func(family string) bigtable.Filter { return bigtable.ColumnRangeFilter(family, low, high+"\x00") }
	return bigtable.InterleaveFilters(append(conflictingLocks(span(layout.LockFamily), startTS, first),
		bigtable.ChainFilters(span(layout.WriteFamily), newerThan(startTS)))...)
}

// conflictingLocks selects, of the locks that a filter lets through, those of other transactions; all of them, the first time.
func conflictingLocks(locks bigtable.Filter, startTS tso.Timestamp, first bool) []bigtable.Filter {
	if first {
		return []bigtable.Filter{locks}
	}
	return []bigtable.Filter{
		bigtable.ChainFilters(locks, bigtable.TimestampRangeFilterMicros(0, layout.CellTime(startTS))),
		bigtable.ChainFilters(locks, From(startTS+1)),
	}
}

// newerThan selects the write records that refuse a prewrite.
func newerThan(startTS tso.Timestamp) bigtable.Filter {
	return From(startTS)
}

// LockFilter is "does this transaction still hold the cell?" (I6, I9).
func LockFilter(column string, startTS tso.Timestamp) bigtable.Filter {
	return bigtable.ChainFilters(OneColumn(layout.LockFamily, column), Exactly(startTS))
}

// StartFilter is "is there a write record, or a marker, of this transaction?" (I8).
func StartFilter(column string, startTS tso.Timestamp) bigtable.Filter {
	lo := binary.BigEndian.AppendUint64(nil, uint64(startTS))
	hi := binary.BigEndian.AppendUint64(nil, uint64(startTS)+1)
	return bigtable.ChainFilters(OneColumn(layout.WriteFamily, column), From(startTS), bigtable.ValueRangeFilter(lo, hi))
}

// PrimaryFilter reads what decides a transaction: its record or marker on the primary, or its lock there.
func PrimaryFilter(column string, startTS tso.Timestamp) bigtable.Filter {
	return bigtable.InterleaveFilters(StartFilter(column, startTS), LockFilter(column, startTS))
}

// PrefixEnd is the end of the range of everything that begins with prefix.
func PrefixEnd(prefix string) string { return model.Prefix(prefix).End }

// ExactValue matches a cell with precisely this value.
func ExactValue(b []byte) bigtable.Filter {
	return bigtable.ValueRangeFilter(b, append(slices.Clip(b), 0))
}

// WholeRowFilter returns the newest n locks, write records and data versions, at or below ts if that is not 0, of all columns, up to
// the number of cells that make a row wide.
func WholeRowFilter(ts tso.Timestamp, n int) bigtable.Filter {
	parts := make([]bigtable.Filter, 0, 3)
	if ts != 0 {
		parts = append(parts, UpTo(ts))
	}
	return bigtable.ChainFilters(append(parts, bigtable.LatestNFilter(n), bigtable.CellsPerRowLimitFilter(n*WholeRowCells))...)
}

// WholeRowCells is how many cells a narrow row has, for each version asked for.
const WholeRowCells = 16
