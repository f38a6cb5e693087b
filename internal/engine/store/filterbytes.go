package store

import "github.com/gopercolator/percolator/internal/engine/layout"

// FilterBytes is what Bigtable takes of a filter.
const FilterBytes = 20 << 10

// What a part of a filter has besides names and values, with the frames of what it stands in.
const (
	fixedBytes   = 100 // of a query: bounds of time, numbers of versions, families
	rangeBytes   = 24  // of a column
	familyBytes  = 24  // of another family
	compareBytes = 34  // of the comparison of a cell, exactly
)

// FilterBytes is how long the filter is that Bigtable is sent for the query, or slightly more: a
// simulated store refuses by it what Bigtable refuses. That of a comparison is exact.
func (q Query) FilterBytes() int {
	one := rangeBytes + 2*len(q.Column)
	size := 0
	switch q.Shape {
	case ShapeNewest:
		size = named(q.Columns, len(readFamilies)) + q.variantBytes()
	case ShapeWholeRow:
		size = q.variantBytes()
	case ShapeNewestIn:
		for _, r := range q.Ranges {
			size += len(readFamilies) * (rangeBytes + len(r.Start) + len(r.End))
		}
	case ShapeDataAt:
		for _, v := range q.Versions {
			size += 2*rangeBytes + 2*len(v.Column)
		}
	case ShapeConflict:
		if size = patternBytes(q.Columns); len(q.Columns) == 1 {
			size = q.spanBytes(q.Columns[0], q.Columns[0])
		}
	case ShapeConflictSpan:
		size = q.spanBytes(q.Column, q.Other)
	case ShapePrimary:
		size = 2 * one
	case ShapeChanged:
		size = named(q.Columns, len(readFamilies)) + len(readFamilies)*rangeBytes
	case ShapeInspected:
		size = len(layout.Families)*2*rangeBytes + ranges(q.Columns, len(layout.Families))
	case ShapeGarbage, ShapeHistory, ShapeExported, ShapeWeak:
		size = 4 * familyBytes
	case ShapeCellIs, ShapeCellBegins:
		size = compareBytes + 2*len(q.Column) + 2*len(q.Value)
		if len(q.Column) > 125 { // lengths take one byte up to 127
			size += 4
		}
		return size
	default:
		size = one + 2*len(q.Other) + 2*len(q.Value)
	}
	return fixedBytes + size
}

// variantBytes is what a variant of newest versions has more than a plain query.
func (q Query) variantBytes() int {
	switch q.Variant {
	case OnlyChanges:
		return 7 * familyBytes
	case ChangeRecords, WithoutData:
		return 2 * familyBytes
	}
	return 0
}

// ranges is columns as ranges, in so many families.
func ranges(columns []string, families int) (size int) {
	for _, c := range columns {
		size += families * (rangeBytes + 2*len(c))
	}
	return size
}

// named is columns by ranges if they are few, or by a pattern.
func named(columns []string, families int) int {
	if nameByRanges(columns) {
		return ranges(columns, families)
	}
	return patternBytes(columns)
}

// patternBytes is the length of the pattern of columns.
func patternBytes(columns []string) (size int) {
	for _, c := range columns {
		size++ // between two
		for i := range len(c) {
			if size++; !plain(c[i]) {
				size += len(`\x00`) - 1
			}
		}
	}
	return size
}

// spanBytes is a conflict in a span of columns: twice among the locks, unless any of them counts.
func (q Query) spanBytes(low, high string) int {
	families := 3
	if q.Variant == FirstAttempt {
		families = 2
	}
	return families * (2*rangeBytes + len(low) + len(high))
}
