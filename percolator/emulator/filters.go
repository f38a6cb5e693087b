package emulator

import (
	"slices"
	"strings"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func (l limits) checkFilter(f *btpb.RowFilter) error {
	if n := proto.Size(f); n > l.filter {
		return refused("the filter has %d bytes, more than %d", n, l.filter)
	}
	if n := depth(f); n > l.filterDepth {
		return refused("the filter has %d levels, more than %d", n, l.filterDepth)
	}
	return checkParts(f, false)
}

// depth counts the levels of a filter: 1 for one that contains no other.
func depth(f *btpb.RowFilter) int {
	if f == nil {
		return 0
	}
	deepest := 0
	for _, g := range inner(f) {
		deepest = max(deepest, depth(g))
	}
	return deepest + 1
}

// inner are the filters that a filter consists of; some may be nil.
func inner(f *btpb.RowFilter) []*btpb.RowFilter {
	switch f := f.GetFilter().(type) {
	case *btpb.RowFilter_Chain_:
		return f.Chain.GetFilters()
	case *btpb.RowFilter_Interleave_:
		return f.Interleave.GetFilters()
	case *btpb.RowFilter_Condition_:
		c := f.Condition
		return []*btpb.RowFilter{c.GetPredicateFilter(), c.GetTrueFilter(), c.GetFalseFilter()}
	}
	return nil
}

// checkParts refuses a filter with a part that is wrong whatever the table. Google's emulator lets
// a sink pass everything, and a range of columns without a family nothing.
func checkParts(f *btpb.RowFilter, withinCondition bool) error {
	switch part := f.GetFilter().(type) {
	case *btpb.RowFilter_Sink:
		if withinCondition {
			return refused("Error in field 'sink' : a condition contains it")
		}
	case *btpb.RowFilter_Condition_:
		withinCondition = true
	case *btpb.RowFilter_ColumnRangeFilter:
		if !familyIDs.MatchString(part.ColumnRangeFilter.GetFamilyName()) {
			return refused("Error in field 'column_range_filter' : Invalid id for collection columnFamilies")
		}
	case *btpb.RowFilter_FamilyNameRegexFilter:
		switch pattern := part.FamilyNameRegexFilter; {
		case pattern == "":
			return refused("Error in field 'family_name_regex_filter' : argument must not be empty")
		case strings.Contains(pattern, ":"):
			return refused("Error in field 'family_name_regex_filter' : argument must not contain ':'")
		}
	}
	for _, g := range inner(f) {
		if err := checkParts(g, withinCondition); err != nil {
			return err
		}
	}
	return nil
}

// misses reports whether a filter names a family that is not among families. A pattern names one if
// it is just a name; the service is known to refuse no other pattern.
func misses(families map[string]bool, f *btpb.RowFilter) bool {
	switch part := f.GetFilter().(type) {
	case *btpb.RowFilter_ColumnRangeFilter:
		return !families[part.ColumnRangeFilter.GetFamilyName()]
	case *btpb.RowFilter_FamilyNameRegexFilter:
		name := part.FamilyNameRegexFilter
		return familyIDs.MatchString(name) && !strings.Contains(name, ".") && !families[name]
	}
	return slices.ContainsFunc(inner(f), func(g *btpb.RowFilter) bool { return misses(families, g) })
}

// checkFamiliesRead refuses a read whose filter names a family that the table lacks; families of
// nil are unknown.
func checkFamiliesRead(families map[string]bool, r *btpb.ReadRowsRequest) error {
	if families == nil || !misses(families, r.Filter) {
		return nil
	}
	return status.Errorf(codes.NotFound, "Error while reading table '%s' : Requested column family not found", r.TableName)
}
