package store

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/tso"
)

// Evaluate returns what the query finds of a row: what a store has to answer. It knows nothing of
// filters. Items are grouped by family and column, newest first, as in layout.Row. A store that
// finds more than most cells chooses that many of them; 0: it returns them all.
func (q Query) Evaluate(items []layout.Item) (found []layout.Item, most int) {
	row := cells(items)
	switch q.Shape {
	case ShapeNewest:
		ranges := nameByRanges(q.Columns)
		return row.where(func(it *layout.Item) bool {
			return (q.At == 0 || version(it) <= q.At) && q.names(it) && !(ranges && it.Family == layout.NotifyFamily) && q.has(it)
		}).newest(q.N), 0
	case ShapeNewestIn:
		return row.of(readFamilies[:]...).where(func(it *layout.Item) bool {
			return (q.At == 0 || version(it) <= q.At) && q.Ranges.Contain(it.Column)
		}).newest(q.N), 0
	case ShapeWholeRow:
		return row.upTo(q.At).where(q.has).newest(q.N), q.N * WholeRowCells
	case ShapeDataAt:
		found := row.of(layout.DataFamily).where(func(it *layout.Item) bool {
			return slices.Contains(q.Versions, Version{it.Column, version(it)})
		})
		if q.Variant == WithoutValues {
			found = found.stripped()
		}
		return found, 0
	case ShapeHeldLock:
		return row.heldLock(q), 0
	case ShapeRecord:
		return row.record(q), 0
	case ShapePrimary:
		return append(row.record(q), row.heldLock(q)...), 0
	case ShapeConflict:
		return row.where(func(it *layout.Item) bool { return q.conflicts(it) && q.names(it) }), 0
	case ShapeConflictSpan:
		return row.where(func(it *layout.Item) bool { return it.Column >= q.Column && it.Column <= q.Other && q.conflicts(it) }), 0
	case ShapeAnyNotify:
		return row.of(layout.NotifyFamily).column(q.Column), 0
	case ShapePending:
		return row.of(layout.NotifyFamily, layout.LockFamily).newest(1), 0
	case ShapePendingUpTo:
		notify := row.of(layout.NotifyFamily)
		states := notify.under(layout.Reserved)
		notified := notify.where(func(it *layout.Item) bool { return it.Column >= afterReserved }).upTo(q.At).newest(q.N)
		return slices.Concat(notified, states.newest(1), row.of(layout.LockFamily)), 0
	case ShapeWrittenSince:
		return row.of(layout.WriteFamily).from(q.At).newest(1).stripped(), 0
	case ShapeLocks:
		return row.of(layout.LockFamily).where(func(it *layout.Item) bool { return version(it) <= q.At }), 0
	case ShapeAllLocks:
		return row.of(layout.LockFamily), 0
	}
	return row.seldom(q)
}

// seldom evaluates what is not asked for by every transaction: together with that it would need
// more stack than most goroutines have.
func (row cells) seldom(q Query) (found []layout.Item, most int) {
	switch q.Shape {
	case ShapeGarbage:
		return append(row.of(layout.DataFamily).stripped(), row.of(layout.LockFamily, layout.WriteFamily)...), 0
	case ShapeHistory:
		return append(row.of(layout.DataFamily).stripped(), row.of(layout.LockFamily, layout.WriteFamily, layout.NotifyFamily)...), 0
	case ShapeRecordsFrom:
		return row.of(layout.WriteFamily).from(q.From).upTo(q.At), 0
	case ShapeChanged:
		found := row.of(layout.WriteFamily).where(q.names).from(q.From).upTo(q.At)
		if q.Variant == WithData {
			found = append(found, row.of(layout.DataFamily).where(q.names).from(q.From).upTo(q.At)...)
		}
		return append(found, row.of(layout.LockFamily).where(q.names).upTo(q.At)...), 0
	case ShapeExported:
		found := row.upTo(q.At).newest(q.N)
		if q.Variant == WithLaterAcks {
			found = append(found, row.of(layout.WriteFamily).under(layout.AckPrefix).from(q.At+1).newest(1).stripped()...)
		}
		return found, 0
	case ShapeWeak:
		return append(row.of(layout.NotifyFamily).upTo(q.At),
			row.of(layout.WriteFamily).under(layout.TracePrefix).from(q.At+1)...).newest(1), 0
	case ShapeRecords:
		return row.of(layout.WriteFamily).column(q.Column).upTo(q.At).newest(q.N), 0
	case ShapeInspected:
		return row.inspected(q), 0
	case ShapeAnything:
		return row.stripped(), 1
	}
	return row.meta(q), 0
}

// meta evaluates the queries of the meta table.
func (row cells) meta(q Query) cells {
	family := row.of(layout.MetaFamily)
	atLeast := func(it *layout.Item) bool { return bytes.Compare(it.Value, q.Value) >= 0 }
	switch q.Shape {
	case ShapeCellsOf:
		if q.Column == "" && q.Cells == 0 {
			return row.newest(1)
		}
		return family.under(q.Column).newest(1).first(q.Cells)
	case ShapeJournalCells:
		return row.of(layout.JournalFamily).newest(1)
	case ShapeCellIs:
		return family.column(q.Column).where(func(it *layout.Item) bool { return bytes.Equal(it.Value, q.Value) })
	case ShapeCellBegins:
		return family.column(q.Column).where(func(it *layout.Item) bool { return bytes.HasPrefix(it.Value, q.Value) })
	case ShapeCellAtLeast:
		return family.column(q.Column).where(atLeast)
	case ShapeEitherCell:
		return append(family.column(q.Column), family.column(q.Other)...)
	case ShapeSafepointRefused:
		return append(family.column(q.Column).where(atLeast),
			family.under(q.Other).where(func(it *layout.Item) bool { return !atLeast(it) })...)
	case ShapeHoldRefused:
		return append(family.column(q.Column).where(atLeast), family.column(q.Other)...)
	}
	panic("a query without a shape")
}

// cells are some of a row's, in its order.
type cells []layout.Item

func version(it *layout.Item) tso.Timestamp { return tso.Timestamp(it.Timestamp / 1000) }

// names reports whether the query names the cell's column, or none.
func (q *Query) names(it *layout.Item) bool {
	return len(q.Columns) == 0 || slices.Contains(q.Columns, it.Column)
}

// has reports whether the variant of a query of newest versions has the cell.
func (q *Query) has(it *layout.Item) bool {
	changes := it.Family == layout.WriteFamily && layout.MayChange(it.Value)
	switch q.Variant {
	case OnlyChanges:
		return changes || it.Family == layout.LockFamily || it.Family == layout.DataFamily
	case ChangeRecords:
		return changes
	case WithoutData:
		return it.Family == layout.WriteFamily || it.Family == layout.LockFamily
	}
	return true
}

// whereFew is how many cells have room at first: most of the versions of a row are old.
const whereFew = 8

// where returns some of the cells, in new memory only if they do not stand together: what is
// appended to them spoils no others.
func (c cells) where(keep func(*layout.Item) bool) cells {
	from, to := 0, 0 // those that stand together
	for i := range c {
		switch {
		case !keep(&c[i]):
		case from == to:
			from, to = i, i+1
		case to == i:
			to++
		default:
			out := append(make(cells, 0, min(len(c)-i, whereFew)+to-from), c[from:to]...)
			for out = append(out, c[i]); i+1 < len(c); i++ {
				if keep(&c[i+1]) {
					out = append(out, c[i+1])
				}
			}
			return out
		}
	}
	return c[from:to:to]
}

func (c cells) of(families ...string) cells {
	family, among := "", false // of the cell before
	return c.where(func(it *layout.Item) bool {
		if it.Family != family {
			family, among = it.Family, slices.Contains(families, it.Family)
		}
		return among
	})
}

func (c cells) column(name string) cells {
	return c.where(func(it *layout.Item) bool { return it.Column == name })
}

func (c cells) under(prefix string) cells {
	return c.where(func(it *layout.Item) bool { return strings.HasPrefix(it.Column, prefix) })
}

func (c cells) from(ts tso.Timestamp) cells {
	return c.where(func(it *layout.Item) bool { return version(it) >= ts })
}

// upTo sets no bound if ts is 0.
func (c cells) upTo(ts tso.Timestamp) cells {
	if ts == 0 {
		return slices.Clip(c)
	}
	return c.where(func(it *layout.Item) bool { return version(it) <= ts })
}

// newest is the first n of each column and family, whose cells stand together.
func (c cells) newest(n int) cells {
	seen := 0
	var last *layout.Item
	return c.where(func(it *layout.Item) bool {
		if last == nil || it.Column != last.Column || it.Family != last.Family {
			seen = 0
		}
		seen++
		last = it
		return seen <= n
	})
}

// first is the first n; 0: all.
func (c cells) first(n int) cells {
	if n > 0 && n < len(c) {
		return c[:n:n]
	}
	return c
}

func (c cells) stripped() (out cells) {
	for _, it := range c {
		it.Value = []byte{}
		out = append(out, it)
	}
	return out
}

func (c cells) heldLock(q Query) cells {
	return c.where(func(it *layout.Item) bool {
		return it.Family == layout.LockFamily && version(it) == q.At && it.Column == q.Column
	})
}

func (c cells) record(q Query) cells {
	return c.where(func(it *layout.Item) bool {
		return it.Family == layout.WriteFamily && version(it) >= q.At && it.Column == q.Column &&
			len(it.Value) >= 8 && tso.Timestamp(binary.BigEndian.Uint64(it.Value)) == q.At
	})
}

func (q *Query) conflicts(it *layout.Item) bool {
	return it.Family == layout.LockFamily && (q.Variant == FirstAttempt || version(it) != q.At) || it.Family == layout.WriteFamily && version(it) >= q.At
}

func (c cells) inspected(q Query) (out cells) {
	for _, family := range layout.Families {
		found := c.of(family).where(func(it *layout.Item) bool {
			return q.names(it) || strings.HasPrefix(it.Column, layout.Reserved)
		}).newest(q.N).first(q.Cells)
		if family == layout.DataFamily {
			found = found.stripped()
		}
		out = append(out, found...)
	}
	return out
}
