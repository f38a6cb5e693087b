package scanning

import (
	"math/bits"
	"slices"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
)

// Share returns the part of a table that the i-th of n workers searches. bounds, sorted, divide the
// table into parts with similar amounts of rows. The n shares cover the table in order and without
// overlap, except for neighbours with no key between them to cut at. Without bounds no worker knows
// where the rows are, and each has everything.
//
// Shares are contiguous, so that a search costs as many requests as one of the whole table. Nearly
// all of them move when a worker registers or deregisters, which costs nothing, because a scanner
// keeps nothing about its part. Small parts assigned by rendezvous hashing would move less, but
// cost a request each in every search.
func Share(bounds []string, i, n int) percolator.Range {
	for len(bounds) > 0 && bounds[0] == "" { // nothing is before it
		bounds = bounds[1:]
	}
	if len(bounds) == 0 || n <= 1 || i < 0 || i >= n {
		return percolator.All()
	}
	r := percolator.Range{Start: cut(bounds, i, n)}
	if i+1 < n {
		r.End = cut(bounds, i+1, n)
	}
	// No key precedes the first, so the next share starts at the beginning.
	if i+1 < n && r.End == "" {
		r.End = afterLastRow
	}
	return r
}

// cut returns where the i-th of n equal parts begins, i < n. Between two bounds it interpolates the
// values of keys.
func cut(bounds []string, i, n int) string {
	parts := len(bounds) + 1
	part, rest := i*parts/n, uint64(i*parts%n)
	var from, to string
	if part > 0 {
		from = bounds[part-1]
	}
	if part < len(bounds) {
		to = bounds[part]
	}
	if rest == 0 {
		return from
	}
	return between(from, to, func(span uint64) uint64 {
		high, low := bits.Mul64(span, rest)
		q, _ := bits.Div64(high, low, uint64(n))
		return q
	})
}

// Known returns at most most row keys that divide a table into parts with similar amounts of rows:
// the boundaries of tablets if there are enough (tablets), otherwise enough rows met before,
// otherwise nothing.
func (p *Places) Known(table string, most int) (keys []string, tablets bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.table(table)
	switch {
	case most <= 0:
		return nil, false
	case len(t.tablets) >= fewTablets:
		keys, tablets = slices.Clone(t.tablets), true
	case len(t.rows) >= sampledRows:
		keys = slices.Clone(t.rows)
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	return ordered.Evenly(keys, most), tablets
}

// Forget drops the rows met in a table: they are from a part of it only.
func (p *Places) Forget(table string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table(table).rows = nil
}
