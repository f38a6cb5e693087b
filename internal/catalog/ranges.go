package catalog

import (
	"slices"
	"sort"
	"strings"

	"github.com/gopercolator/percolator/percolator/model"
)

// InRange reports whether key lies in r.
func InRange(r model.Range, key string) bool { return key >= r.Start && (r.End == "" || key < r.End) }

// EmptyRange reports that no key can be in r; Bigtable refuses inverted ranges.
func EmptyRange(r model.Range) bool { return r.End != "" && r.Start >= r.End }

// Ranges are ranges in ascending order, none of which is empty or touches another.
type Ranges []model.Range

// Union is every key that lies in one of the ranges.
func Union(ranges ...model.Range) Ranges {
	sorted := slices.DeleteFunc(slices.Clone(ranges), EmptyRange)
	slices.SortFunc(sorted, func(a, b model.Range) int { return strings.Compare(a.Start, b.Start) })
	out := Ranges(sorted[:0])
	for _, r := range sorted {
		last := len(out) - 1
		switch {
		case last < 0 || out[last].End != "" && out[last].End < r.Start:
			out = append(out, r)
		case out[last].End != "" && (r.End == "" || r.End > out[last].End):
			out[last].End = r.End
		}
	}
	return out
}

// Contain reports whether key lies in one of the ranges.
func (rs Ranges) Contain(key string) bool {
	i := rs.behind(key)
	return i < len(rs) && key >= rs[i].Start
}

// behind is the first of the ranges that does not end at or before key.
func (rs Ranges) behind(key string) int {
	return sort.Search(len(rs), func(i int) bool { return rs[i].End == "" || rs[i].End > key })
}

// Meeting is those of the ranges that share a key with r.
func (rs Ranges) Meeting(r model.Range) Ranges {
	if EmptyRange(r) {
		return nil
	}
	to := len(rs)
	if r.End != "" {
		to = sort.Search(len(rs), func(i int) bool { return rs[i].Start >= r.End })
	}
	return rs[min(rs.behind(r.Start), to):to]
}

// Within is the part of the ranges that lies in r.
func (rs Ranges) Within(r model.Range) Ranges {
	out := slices.Clone(rs.Meeting(r))
	if len(out) == 0 {
		return nil
	}
	out[0].Start = max(out[0].Start, r.Start)
	if last := &out[len(out)-1]; r.End != "" && (last.End == "" || last.End > r.End) {
		last.End = r.End
	}
	return out
}
