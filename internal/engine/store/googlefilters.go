package store

import (
	"encoding/binary"
	"slices"
	"strings"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Filters name columns by ranges, or by patterns that escape every byte that is not a letter or
// digit: a column filter is a regular expression, in which "a.b" also matches "axb" and ".*" misses
// a newline.

const hexDigits = "0123456789abcdef"

// pattern matches exactly the given column names.
func pattern(columns []string) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteByte('|')
		}
		for j := 0; j < len(c); j++ {
			if ch := c[j]; plain(ch) {
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

// plain is what a pattern need not escape.
func plain(ch byte) bool {
	return ch >= '0' && ch <= '9' || ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z'
}

// oneColumn selects one column of one family.
func oneColumn(family, column string) bigtable.Filter {
	return bigtable.ColumnRangeFilter(family, column, column+"\x00")
}

// from and upTo are bounds on cell timestamps, both inclusive. An end of 0 would mean unbounded.
func from(ts tso.Timestamp) bigtable.Filter {
	return bigtable.TimestampRangeFilterMicros(cellTime(ts), 0)
}

func upTo(ts tso.Timestamp) bigtable.Filter {
	return bigtable.TimestampRangeFilterMicros(0, cellTime(ts+1))
}

func exactly(ts tso.Timestamp) bigtable.Filter {
	return bigtable.TimestampRangeFilterMicros(cellTime(ts), cellTime(ts+1))
}

// newestFilter returns, for each of the columns (all if none), the newest n locks, write records
// and data versions at or below at, or what the variant has of them. at = 0 sets no bound.
//
// Ranges name a few columns; a pattern names many. Both come last: Google's emulator copies all
// that reaches an interleave of ranges once for each, and compiles a pattern anew for every cell
// that reaches it.
func (q Query) newestFilter() bigtable.Filter {
	parts := q.newestVersions()
	if ranges := rangesOf(q.Columns); ranges != nil {
		parts = append(parts, bigtable.InterleaveFilters(ranges...))
	} else if len(q.Columns) > 0 {
		parts = append(parts, bigtable.ColumnFilter(pattern(q.Columns)))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return bigtable.ChainFilters(parts...)
}

// newestVersions begins the chain of a filter of newest versions, without the columns.
func (q Query) newestVersions() []bigtable.Filter {
	newest := bigtable.LatestNFilter(q.N)
	parts := make([]bigtable.Filter, 0, 5)
	if q.At != 0 {
		parts = append(parts, upTo(q.At))
	}
	switch q.Variant {
	case OnlyChanges:
		return append(parts, bigtable.InterleaveFilters(
			bigtable.ChainFilters(whole(layout.LockFamily), newest),
			bigtable.ChainFilters(whole(layout.WriteFamily), changing, newest),
			bigtable.ChainFilters(whole(layout.DataFamily), newest)))
	case ChangeRecords:
		return append(parts, whole(layout.WriteFamily), changing, newest)
	case WithoutData:
		return append(parts, bigtable.InterleaveFilters(whole(layout.LockFamily), whole(layout.WriteFamily)), newest)
	}
	return append(parts, newest)
}

// changing lets through every write record but those of locks and rollbacks: also one that cannot
// be decoded, which is for the reader to refuse. No range of values says so, as the start timestamp
// stands before the kind.
var changing = bigtable.ValueFilter(`\C{8}[^` + string([]byte{byte(layout.KindLock), byte(layout.KindRollback)}) + `]\C*|\C{0,8}`)

// readFamilies are those that a read needs.
var readFamilies = [...]string{layout.LockFamily, layout.WriteFamily, layout.DataFamily}

// newestInFilter is newestFilter for ranges of columns. They must not overlap: a cell that two of
// them let through would count twice.
func (q Query) newestInFilter() bigtable.Filter {
	ranges := make([]bigtable.Filter, 0, len(readFamilies)*len(q.Ranges))
	for _, family := range readFamilies {
		for _, r := range q.Ranges {
			ranges = append(ranges, bigtable.ColumnRangeFilter(family, r.Start, r.End))
		}
	}
	return bigtable.ChainFilters(append(q.newestVersions(), bigtable.InterleaveFilters(ranges...))...)
}

// nameByRanges reports whether the columns are few and short enough to be named by ranges.
func nameByRanges(columns []string) bool {
	const most, bytes = 4, 512
	size := 0
	for _, c := range columns {
		size += len(c)
	}
	return len(columns) > 0 && len(columns) <= most && size <= bytes
}

// rangesOf names columns by ranges, in the three families of a read; nil when they are too many for
// that.
func rangesOf(columns []string) []bigtable.Filter {
	if !nameByRanges(columns) {
		return nil
	}
	out := make([]bigtable.Filter, 0, len(readFamilies)*len(columns))
	for _, family := range readFamilies {
		for _, c := range columns {
			out = append(out, oneColumn(family, c))
		}
	}
	return out
}

// conflictFilter is the predicate of prewrite (I2, I3): for any of the columns a lock of another
// transaction, or a write record at or after startTS, even a rollback marker. On the first attempt
// any lock is another transaction's, which is cheaper to ask.
func conflictFilter(columns []string, startTS tso.Timestamp, first bool) bigtable.Filter {
	if len(columns) == 1 {
		return spanFilter(columns[0], columns[0], startTS, first)
	}
	locks := bigtable.ColumnRangeFilter(layout.LockFamily, "", "")
	return bigtable.ChainFilters( // the pattern comes last, as in newestFilter
		bigtable.InterleaveFilters(append(conflictingLocks(locks, startTS, first),
			bigtable.ChainFilters(bigtable.ColumnRangeFilter(layout.WriteFamily, "", ""), from(startTS)))...),
		bigtable.ColumnFilter(pattern(columns)))
}

// spanFilter is conflictFilter for all columns from low to high.
func spanFilter(low, high string, startTS tso.Timestamp, first bool) bigtable.Filter {
	span := func(family string) bigtable.Filter { return bigtable.ColumnRangeFilter(family, low, high+"\x00") }
	return bigtable.InterleaveFilters(append(conflictingLocks(span(layout.LockFamily), startTS, first),
		bigtable.ChainFilters(span(layout.WriteFamily), from(startTS)))...)
}

// conflictingLocks selects other transactions' locks among those that a filter lets through; on the
// first attempt, all of them.
func conflictingLocks(locks bigtable.Filter, startTS tso.Timestamp, first bool) []bigtable.Filter {
	if first {
		return []bigtable.Filter{locks}
	}
	return []bigtable.Filter{
		bigtable.ChainFilters(locks, bigtable.TimestampRangeFilterMicros(0, cellTime(startTS))),
		bigtable.ChainFilters(locks, from(startTS+1)),
	}
}

// lockFilter is "does this transaction still hold the cell?" (I6, I9).
func lockFilter(column string, startTS tso.Timestamp) bigtable.Filter {
	return bigtable.ChainFilters(oneColumn(layout.LockFamily, column), exactly(startTS))
}

// recordFilter is "is there a write record, or a marker, of this transaction?" (I8).
func recordFilter(column string, startTS tso.Timestamp) bigtable.Filter {
	lo := binary.BigEndian.AppendUint64(nil, uint64(startTS))
	hi := binary.BigEndian.AppendUint64(nil, uint64(startTS)+1)
	return bigtable.ChainFilters(oneColumn(layout.WriteFamily, column), from(startTS), bigtable.ValueRangeFilter(lo, hi))
}

// primaryFilter reads what decides a transaction: its record or marker on the primary, or its lock
// there.
func primaryFilter(column string, startTS tso.Timestamp) bigtable.Filter {
	return bigtable.InterleaveFilters(recordFilter(column, startTS), lockFilter(column, startTS))
}

// exactValue matches a cell with precisely this value.
func exactValue(b []byte) bigtable.Filter {
	return bigtable.ValueRangeFilter(b, append(slices.Clip(b), 0))
}

// valuePrefix matches cells whose values begin with b.
func valuePrefix(b []byte) bigtable.Filter {
	var end []byte // none
	if r := model.Prefix(string(b)); r.End != "" {
		end = []byte(r.End)
	}
	return bigtable.ValueRangeFilter(b, end)
}

func cellTime(ts tso.Timestamp) bigtable.Timestamp { return bigtable.Timestamp(layout.CellTime(ts)) }

// whole selects a family.
func whole(family string) bigtable.Filter { return bigtable.ColumnRangeFilter(family, "", "") }

// afterReserved is behind the columns that begin with layout.Reserved.
var afterReserved = model.Prefix(layout.Reserved).End

// under selects the columns of a family that begin with prefix; all if it is empty.
func under(family, prefix string) bigtable.Filter {
	return bigtable.ColumnRangeFilter(family, prefix, model.Prefix(prefix).End)
}

// filter is the query as Bigtable takes it.
func (q Query) filter() bigtable.Filter {
	switch q.Shape {
	case ShapeNewest:
		return q.newestFilter()
	case ShapeNewestIn:
		return q.newestInFilter()
	case ShapeWholeRow:
		return bigtable.ChainFilters(append(q.newestVersions(), bigtable.CellsPerRowLimitFilter(q.N*WholeRowCells))...)
	case ShapeDataAt:
		return q.dataFilter()
	case ShapeHeldLock:
		return lockFilter(q.Column, q.At)
	case ShapeRecord:
		return recordFilter(q.Column, q.At)
	case ShapePrimary:
		return primaryFilter(q.Column, q.At)
	case ShapeConflict:
		return conflictFilter(q.Columns, q.At, q.Variant == FirstAttempt)
	case ShapeConflictSpan:
		return spanFilter(q.Column, q.Other, q.At, q.Variant == FirstAttempt)
	case ShapeAnyNotify:
		return oneColumn(layout.NotifyFamily, q.Column)
	case ShapePending:
		return bigtable.ChainFilters(bigtable.InterleaveFilters(whole(layout.NotifyFamily), whole(layout.LockFamily)), bigtable.LatestNFilter(1))
	case ShapePendingUpTo:
		notified := bigtable.ChainFilters(bigtable.ColumnRangeFilter(layout.NotifyFamily, afterReserved, ""), upTo(q.At), bigtable.LatestNFilter(q.N))
		states := bigtable.ChainFilters(under(layout.NotifyFamily, layout.Reserved), bigtable.LatestNFilter(1))
		return bigtable.InterleaveFilters(notified, states, whole(layout.LockFamily))
	case ShapeWrittenSince:
		return bigtable.ChainFilters(whole(layout.WriteFamily), from(q.At), bigtable.LatestNFilter(1), bigtable.StripValueFilter())
	case ShapeLocks:
		return bigtable.ChainFilters(whole(layout.LockFamily), upTo(max(q.At, 0)))
	case ShapeAllLocks:
		return whole(layout.LockFamily)
	case ShapeGarbage:
		return bigtable.InterleaveFilters(bigtable.ChainFilters(whole(layout.DataFamily), bigtable.StripValueFilter()),
			whole(layout.LockFamily), whole(layout.WriteFamily))
	case ShapeHistory:
		return bigtable.InterleaveFilters(bigtable.ChainFilters(whole(layout.DataFamily), bigtable.StripValueFilter()),
			whole(layout.LockFamily), whole(layout.WriteFamily), whole(layout.NotifyFamily))
	case ShapeRecordsFrom:
		return bigtable.ChainFilters(whole(layout.WriteFamily), bigtable.TimestampRangeFilterMicros(cellTime(q.From), cellTime(q.At+1)))
	case ShapeChanged:
		return q.changedFilter()
	case ShapeExported:
		return q.exportedFilter()
	case ShapeWeak:
		return bigtable.ChainFilters(bigtable.InterleaveFilters(
			bigtable.ChainFilters(whole(layout.NotifyFamily), upTo(q.At)),
			bigtable.ChainFilters(under(layout.WriteFamily, layout.TracePrefix), from(q.At+1)),
		), bigtable.LatestNFilter(1))
	case ShapeRecords:
		return bigtable.ChainFilters(oneColumn(layout.WriteFamily, q.Column), upTo(q.At), bigtable.LatestNFilter(q.N))
	case ShapeInspected:
		return q.inspectedFilter()
	case ShapeAnything:
		return bigtable.ChainFilters(bigtable.CellsPerRowLimitFilter(1), bigtable.StripValueFilter())
	}
	return q.metaFilter()
}

// metaFilter is the query of the meta table.
func (q Query) metaFilter() bigtable.Filter {
	column := func(name string) bigtable.Filter { return oneColumn(layout.MetaFamily, name) }
	switch q.Shape {
	case ShapeCellsOf:
		if q.Column == "" && q.Cells == 0 {
			return bigtable.LatestNFilter(1)
		}
		parts := []bigtable.Filter{under(layout.MetaFamily, q.Column), bigtable.LatestNFilter(1)}
		if q.Cells > 0 {
			parts = append(parts, bigtable.CellsPerRowLimitFilter(q.Cells))
		}
		return bigtable.ChainFilters(parts...)
	case ShapeCellIs:
		return bigtable.ChainFilters(column(q.Column), exactValue(q.Value))
	case ShapeCellBegins:
		return bigtable.ChainFilters(column(q.Column), valuePrefix(q.Value))
	case ShapeCellAtLeast:
		if q.Value == nil {
			return column(q.Column)
		}
		return bigtable.ChainFilters(column(q.Column), bigtable.ValueRangeFilter(q.Value, nil))
	case ShapeEitherCell:
		return bigtable.InterleaveFilters(column(q.Column), column(q.Other))
	case ShapeJournalCells:
		return bigtable.ChainFilters(whole(layout.JournalFamily), bigtable.LatestNFilter(1))
	case ShapeSafepointRefused:
		return bigtable.InterleaveFilters(
			bigtable.ChainFilters(column(q.Column), bigtable.ValueRangeFilter(q.Value, nil)),
			bigtable.ChainFilters(under(layout.MetaFamily, q.Other), bigtable.ValueRangeFilter(nil, q.Value)))
	case ShapeHoldRefused:
		return bigtable.InterleaveFilters(
			bigtable.ChainFilters(column(q.Column), bigtable.ValueRangeFilter(q.Value, nil)), column(q.Other))
	}
	panic("a query without a shape")
}

func (q Query) dataFilter() bigtable.Filter {
	versions := make([]bigtable.Filter, len(q.Versions))
	for i, v := range q.Versions {
		parts := []bigtable.Filter{oneColumn(layout.DataFamily, v.Column), exactly(v.StartTS)}
		if q.Variant == WithoutValues {
			parts = append(parts, bigtable.StripValueFilter())
		}
		versions[i] = bigtable.ChainFilters(parts...)
	}
	if len(versions) == 1 {
		return versions[0]
	}
	return bigtable.InterleaveFilters(versions...)
}

func (q Query) exportedFilter() bigtable.Filter {
	at := Query{At: q.At, N: q.N}.newestFilter()
	if q.Variant != WithLaterAcks {
		return at
	}
	return bigtable.InterleaveFilters(at, bigtable.ChainFilters(under(layout.WriteFamily, layout.AckPrefix), from(q.At+1),
		bigtable.LatestNFilter(1), bigtable.StripValueFilter()))
}

func (q Query) changedFilter() bigtable.Filter {
	between := bigtable.TimestampRangeFilterMicros(cellTime(q.From), cellTime(q.At+1))
	bounds := map[string]bigtable.Filter{layout.WriteFamily: between, layout.LockFamily: upTo(q.At)}
	if q.Variant == WithData {
		bounds[layout.DataFamily] = between
	}
	var parts []bigtable.Filter
	named := nameByRanges(q.Columns)
	for _, family := range readFamilies {
		bound, asked := bounds[family]
		switch {
		case !asked:
		case named:
			for _, c := range q.Columns {
				parts = append(parts, bigtable.ChainFilters(oneColumn(family, c), bound))
			}
		default:
			parts = append(parts, bigtable.ChainFilters(whole(family), bound))
		}
	}
	all := bigtable.InterleaveFilters(parts...)
	if named || len(q.Columns) == 0 {
		return all
	}
	// The column's filter comes last, as in newestFilter.
	return bigtable.ChainFilters(all, bigtable.ColumnFilter(pattern(q.Columns)))
}

func (q Query) inspectedFilter() bigtable.Filter {
	var families []bigtable.Filter
	for _, family := range layout.Families {
		where := whole(family)
		if len(q.Columns) > 0 {
			ranges := []bigtable.Filter{bigtable.ColumnRangeFilter(family, layout.Reserved, "\x01")}
			for _, column := range q.Columns {
				if !strings.HasPrefix(column, layout.Reserved) { // these would come twice
					ranges = append(ranges, oneColumn(family, column))
				}
			}
			if where = ranges[0]; len(ranges) > 1 {
				where = bigtable.InterleaveFilters(ranges...)
			}
		}
		parts := []bigtable.Filter{where, bigtable.LatestNFilter(q.N), bigtable.CellsPerRowLimitFilter(q.Cells)}
		if family == layout.DataFamily {
			parts = append(parts, bigtable.StripValueFilter())
		}
		families = append(families, bigtable.ChainFilters(parts...))
	}
	return bigtable.InterleaveFilters(families...)
}
