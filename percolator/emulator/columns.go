package emulator

import (
	"cmp"
	"slices"
	"sort"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
)

// columnRanges are ranges of columns in order, of which no two share a cell; an empty end is
// unbounded.
type columnRanges []columnRange

type columnRange struct{ family, start, end string }

// lateColumns takes the last part out of a filter if that only selects cells by ranges of columns.
// Google's emulator copies the whole row for each range, and sorts all its columns anew for each of
// them: a wide row would cost the square of its width. false: f is not such a filter.
func lateColumns(f *btpb.RowFilter) (rest *btpb.RowFilter, columns columnRanges, ok bool) {
	chain := f.GetChain().GetFilters()
	if len(chain) < 2 {
		return f, nil, false
	}
	before := len(chain) - 1
	parts := chain[before].GetInterleave().GetFilters()
	for _, part := range parts {
		r, ok := rangeOf(part.GetColumnRangeFilter())
		if !ok {
			return f, nil, false
		}
		columns = append(columns, r)
	}
	slices.SortFunc(columns, func(a, b columnRange) int {
		return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.start, b.start))
	})
	for i, r := range columns {
		if i > 0 && columns[i-1].meets(r) { // a cell would count twice
			return f, nil, false
		}
	}
	if len(columns) < 2 { // which Google's emulator refuses
		return f, nil, false
	}
	if before == 1 {
		return chain[0], columns, true
	}
	return &btpb.RowFilter{Filter: &btpb.RowFilter_Chain_{Chain: &btpb.RowFilter_Chain{Filters: chain[:before]}}}, columns, true
}

// rangeOf is a range whose bounds are the usual ones: a closed start and an open end, or none.
func rangeOf(r *btpb.ColumnRange) (out columnRange, ok bool) {
	if r == nil {
		return out, false
	}
	out.family = r.FamilyName
	switch from := r.StartQualifier.(type) {
	case nil:
	case *btpb.ColumnRange_StartQualifierClosed:
		out.start = string(from.StartQualifierClosed)
	default:
		return out, false
	}
	switch to := r.EndQualifier.(type) {
	case nil:
	case *btpb.ColumnRange_EndQualifierOpen:
		if out.end = string(to.EndQualifierOpen); out.end == "" { // nothing is before it
			return out, false
		}
	default:
		return out, false
	}
	return out, true
}

// meets reports whether a range that does not begin before r shares a cell with it.
func (r columnRange) meets(next columnRange) bool {
	return r.family == next.family && (r.end == "" || next.start < r.end)
}

// contain reports whether a column lies in one of the ranges.
func (rs columnRanges) contain(family, column string) bool {
	i := sort.Search(len(rs), func(i int) bool {
		return cmp.Or(cmp.Compare(rs[i].family, family), cmp.Compare(rs[i].start, column)) > 0
	}) - 1
	return i >= 0 && rs[i].family == family && (rs[i].end == "" || column < rs[i].end)
}

// of leaves of a row the cells that lie in the ranges. Without any it is a report that the row was
// kept back.
func (rs columnRanges) of(m *btpb.ReadRowsResponse) *btpb.ReadRowsResponse {
	if len(m.Chunks) == 0 {
		return m
	}
	last := m.Chunks[len(m.Chunks)-1]
	var chunks []*btpb.ReadRowsResponse_CellChunk
	for _, c := range m.Chunks {
		if rs.contain(c.GetFamilyName().GetValue(), string(c.GetQualifier().GetValue())) {
			chunks = append(chunks, c)
		}
	}
	switch n := len(chunks); {
	case n == 0:
		return &btpb.ReadRowsResponse{LastScannedRowKey: last.RowKey}
	case chunks[n-1] != last:
		chunks[n-1].RowStatus = last.RowStatus
	}
	return &btpb.ReadRowsResponse{Chunks: chunks}
}
