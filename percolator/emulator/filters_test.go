package emulator

import (
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestFiltersAreRefused: what no filter may contain, as a filter and as a predicate, alone and
// within others.
func TestFiltersAreRefused(t *testing.T) {
	t.Parallel()
	c := bare(t)
	ctx := testContext(t)
	family := func(pattern string) *btpb.RowFilter {
		return &btpb.RowFilter{Filter: &btpb.RowFilter_FamilyNameRegexFilter{FamilyNameRegexFilter: pattern}}
	}
	columns := func(family string) *btpb.RowFilter {
		return &btpb.RowFilter{Filter: &btpb.RowFilter_ColumnRangeFilter{ColumnRangeFilter: &btpb.ColumnRange{FamilyName: family}}}
	}
	chain := func(f *btpb.RowFilter) *btpb.RowFilter {
		return &btpb.RowFilter{Filter: &btpb.RowFilter_Chain_{Chain: &btpb.RowFilter_Chain{Filters: []*btpb.RowFilter{passAll(), f}}}}
	}
	interleave := func(f *btpb.RowFilter) *btpb.RowFilter {
		return &btpb.RowFilter{Filter: &btpb.RowFilter_Interleave_{Interleave: &btpb.RowFilter_Interleave{Filters: []*btpb.RowFilter{passAll(), f}}}}
	}
	condition := func(predicate, yes, no *btpb.RowFilter) *btpb.RowFilter {
		return &btpb.RowFilter{Filter: &btpb.RowFilter_Condition_{Condition: &btpb.RowFilter_Condition{PredicateFilter: predicate, TrueFilter: yes, FalseFilter: no}}}
	}
	sink := &btpb.RowFilter{Filter: &btpb.RowFilter_Sink{Sink: true}}
	for _, f := range []struct {
		name   string
		filter *btpb.RowFilter
		want   codes.Code
	}{
		{"none", nil, codes.OK},
		{"a family", family("f"), codes.OK},
		{"a pattern of families", family("none|f"), codes.OK},
		{"a pattern of no family", family("non."), codes.OK},
		{"a missing family", family("none"), codes.NotFound},
		{"no family", family(""), codes.InvalidArgument},
		{"a colon", family("f:"), codes.InvalidArgument},
		{"columns", columns("f"), codes.OK},
		{"columns of a missing family", columns("none"), codes.NotFound},
		{"columns without a family", columns(""), codes.InvalidArgument},
		{"columns of an impossible family", columns("f:"), codes.InvalidArgument},
		{"a sink", interleave(sink), codes.OK},
		{"a sink as the predicate", condition(sink, nil, passAll()), codes.InvalidArgument},
		{"a sink on a match", condition(passAll(), sink, nil), codes.InvalidArgument},
		{"a sink on no match", condition(passAll(), nil, sink), codes.InvalidArgument},
		{"a sink deep in a condition", condition(passAll(), nil, chain(interleave(sink))), codes.InvalidArgument},
		{"a condition", condition(columns("f"), columns("f"), nil), codes.OK},
		{"a missing family as the predicate", condition(columns("none"), passAll(), nil), codes.NotFound},
		{"a missing family on a match", condition(passAll(), columns("none"), nil), codes.NotFound},
		{"a missing family on no match", condition(passAll(), nil, columns("none")), codes.NotFound},
	} {
		for _, within := range []*btpb.RowFilter{f.filter, chain(f.filter), interleave(f.filter)} {
			if f.filter == nil && within != nil {
				continue
			}
			if _, err := readChunks(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t"), Filter: within}); status.Code(err) != f.want {
				t.Errorf("%s: a read: %v, want %v", f.name, err, f.want)
			}
			_, err := c.CheckAndMutateRow(ctx, &btpb.CheckAndMutateRowRequest{
				TableName: fullName("t"), RowKey: []byte("r"), PredicateFilter: within, TrueMutations: repeated(1, setCell("f", "q", 1000, nil))})
			if status.Code(err) != f.want {
				t.Errorf("%s: a condition: %v, want %v", f.name, err, f.want)
			}
		}
	}
	if _, err := readChunks(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("gone"), Filter: columns("f")}); status.Code(err) != codes.NotFound {
		t.Errorf("a table that does not exist: %v", err)
	}
}
