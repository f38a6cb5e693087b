package history

import (
	"slices"
	"sort"
	"strings"
)

// cellsIn lists the cells of a table whose rows lie in a range, in the order of a scan.
func (c *Checker) cellsIn(s *scan) []cellID {
	ids := c.tables[s.table]
	if s.index {
		return ids
	}
	row := func(i int) string { return c.h.names[ids[i]].Row }
	from := sort.Search(len(ids), func(i int) bool { return row(i) >= s.from })
	to := len(ids)
	if s.to != "" {
		to = sort.Search(len(ids), func(i int) bool { return row(i) >= s.to })
	}
	return ids[from:max(from, to)]
}

// selects tells whether the scan asked for the cell's column.
func (s *scan) selects(name Cell) bool {
	return len(s.columns) == 0 || slices.Contains(s.columns, name.Column)
}

// contains tells whether a value lies in the range of an index scan.
func (s *scan) contains(value string) bool { return value >= s.from && (s.to == "" || value < s.to) }

// now is what the transaction has to see in a cell.
func (r *reader) now(cell cellID) valueID {
	if own, ok := r.own[cell]; ok {
		return own
	}
	v, _ := r.c.valueAt(cell, r.t.start)
	return v
}

// scan compares the answer of a scan with all cells in its range: neither missing nor extra, in
// order.
func (r *reader) scan(s *scan) {
	c := r.c
	rest := s.entries
	for i := 1; i < len(rest); i++ {
		if c.h.names[rest[i-1].cell].Compare(c.h.names[rest[i].cell]) >= 0 {
			c.report.add(anomalyScanOrder, "%s scanned %s: %s comes after %s", r.t, s.table, c.h.names[rest[i].cell], c.h.names[rest[i-1].cell])
			return
		}
	}
	for _, id := range c.cellsIn(s) {
		if !s.selects(c.h.names[id]) {
			continue
		}
		if len(rest) > 0 && rest[0].cell == id {
			r.read(id, rest[0].value, rest[0].commit)
			rest = rest[1:]
		} else {
			r.read(id, absent, 0)
		}
	}
	for _, e := range rest {
		c.report.add(anomalyScanOrder, "%s scanned %s and got %s, which is out of the range", r.t, s.table, c.h.names[e.cell])
	}
}

// indexScan compares the answer of an index scan with all cells of the indexed column.
func (r *reader) indexScan(s *scan) {
	c := r.c
	type hit struct {
		cell  cellID
		value string
	}
	var want []hit
	for _, id := range c.cellsIn(s) {
		if v := r.now(id); v != absent && s.selects(c.h.names[id]) && s.contains(c.h.texts[v]) {
			want = append(want, hit{id, c.h.texts[v]})
		}
	}
	slices.SortFunc(want, func(a, b hit) int {
		if n := strings.Compare(a.value, b.value); n != 0 {
			return n
		}
		return strings.Compare(c.h.names[a.cell].Row, c.h.names[b.cell].Row)
	})
	var got []hit
	for _, e := range s.entries {
		got = append(got, hit{e.cell, c.h.texts[e.value]})
	}
	if slices.Equal(got, want) {
		return
	}
	for _, g := range got {
		if !slices.Contains(want, g) && !c.explains(g.cell, r.t.start, anyEffect) {
			c.report.add(anomalyStaleRead, "%s found %s by an index under a value that it does not have", r.t, c.h.names[g.cell])
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) && !c.explains(w.cell, r.t.start, anyEffect) {
			c.report.add(anomalyStaleRead, "%s did not find %s by an index", r.t, c.h.names[w.cell])
		}
	}
	if len(got) == len(want) {
		c.report.add(anomalyScanOrder, "%s: the entries of an index of %s are not in the order of values", r.t, s.table)
	}
}
