package simulated

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/tso"
)

// row is a row of a table, under the table's lock. Nothing else knows its values.
type row struct {
	key   string
	items []layout.Item // as in layout.Row
	size  int64         // what a disk passes over
}

func rowLess(a, b *row) bool { return a.key < b.key }

// rank is where a family stands in an answer.
func rank(family string) int {
	switch family {
	case layout.LockFamily:
		return 0
	case layout.WriteFamily:
		return 1
	case layout.DataFamily:
		return 2
	case layout.NotifyFamily:
		return 3
	case layout.MetaFamily:
		return 4
	case tso.BigtableFamily:
		return 5
	case layout.JournalFamily:
		return 6
	}
	return 7
}

func compareFamilies(a, b string) int {
	if a == b {
		return 0
	}
	if c := rank(a) - rank(b); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// compareItems orders cells as layout.Row does: by family and column, newest first.
func compareItems(a, b *layout.Item) int {
	if c := compareFamilies(a.Family, b.Family); c != 0 {
		return c
	}
	if c := strings.Compare(a.Column, b.Column); c != 0 {
		return c
	}
	return cmp.Compare(b.Timestamp, a.Timestamp)
}

// find is where a cell is, or belongs.
func (r *row) find(it *layout.Item) (at int, found bool) {
	low, high := 0, len(r.items)
	for low < high {
		mid := int(uint(low+high) >> 1)
		switch c := compareItems(&r.items[mid], it); {
		case c == 0:
			return mid, true
		case c < 0:
			low = mid + 1
		default:
			high = mid
		}
	}
	return low, false
}

// cellOverhead is about what a cell takes besides its key, column and value.
const cellOverhead = 64

func (r *row) sizeOf(it *layout.Item) int64 {
	return int64(len(r.key) + len(it.Column) + len(it.Value) + cellOverhead)
}

// outgrows reports whether changes make a row, which is nil if it is missing, larger than the
// service stores. What they replace or erase counts until then.
func (r *row) outgrows(key string, changes []store.Change) bool {
	size := int64(0)
	if r != nil {
		size = r.size
	}
	for i := range changes {
		if c := &changes[i]; c.Kind == store.PutVersion {
			size += int64(len(key) + len(c.Column) + len(c.Value) + cellOverhead)
		}
	}
	return size > rowBytes
}

// change makes one change, whose value it copies.
func (r *row) change(c *store.Change) {
	switch c.Kind {
	case store.PutVersion:
		r.put(layout.Item{Family: c.Family, Column: c.Column, Timestamp: layout.CellTime(c.From), Value: append([]byte{}, c.Value...)})
	case store.EraseVersions:
		r.erase(c)
	case store.EraseWholeRow:
		clear(r.items)
		r.items, r.size = r.items[:0], 0
	}
}

func (r *row) put(it layout.Item) {
	at, found := r.find(&it)
	if found {
		r.size -= r.sizeOf(&r.items[at])
		r.items[at] = it
	} else {
		r.items = slices.Insert(r.items, at, it)
	}
	r.size += r.sizeOf(&it)
}

func (r *row) erase(c *store.Change) {
	newest := layout.Item{Family: c.Family, Column: c.Column, Timestamp: 1<<63 - 1}
	if c.To != 0 {
		newest.Timestamp = layout.CellTime(c.To) - 1
	}
	from, _ := r.find(&newest)
	to, oldest := from, layout.CellTime(c.From)
	for to < len(r.items) && r.items[to].Column == c.Column && r.items[to].Family == c.Family && r.items[to].Timestamp >= oldest {
		r.size -= r.sizeOf(&r.items[to])
		to++
	}
	r.items = slices.Delete(r.items, from, to)
}

// answer is what a query finds, and nothing of it is the row's own.
func (r *row) answer(q *store.Query, h hash) (layout.Row, error) {
	found, most := q.Evaluate(r.items)
	if len(found) == 0 {
		return layout.Row{}, nil
	}
	if most > 0 && len(found) > most {
		found = chosen(found, most, h.with(cellsMark))
	}
	items, size := make([]layout.Item, len(found)), 0
	copy(items, found)
	sorted := true
	for i := range items {
		sorted = sorted && (i == 0 || compareItems(&items[i-1], &items[i]) <= 0)
		size += len(items[i].Value)
	}
	if !sorted {
		slices.SortStableFunc(items, func(a, b layout.Item) int { return compareItems(&a, &b) })
	}
	if size+len(items)*cellOverhead > rowBytes {
		return layout.Row{}, tooLarge(r.key, size)
	}
	values := make([]byte, 0, size)
	for i := range items {
		from := len(values)
		values = append(values, items[i].Value...)
		items[i].Value = values[from:len(values):len(values)]
	}
	return layout.Row{Key: r.key, Items: items}, nil
}

// matches reports whether a query finds a cell.
func (r *row) matches(q *store.Query) bool {
	found, _ := q.Evaluate(r.items)
	return len(found) > 0
}

// chosen is most of the cells, in their order.
func chosen(found []layout.Item, most int, h hash) []layout.Item {
	out := make([]layout.Item, 0, most)
	for i, it := range found {
		if h = h.with(uint64(i)); h.below(len(found)-i) < most-len(out) {
			out = append(out, it)
		}
	}
	return out
}
