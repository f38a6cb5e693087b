package emulator

import (
	"slices"
	"sort"
	"strings"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/internal/ordered"
)

// interval is a half-open interval of row keys. An end of "" is no bound.
type interval struct{ start, end string }

var everything = interval{}

// successor returns the key that follows key directly.
func successor(key string) string { return key + "\x00" }

func (v interval) empty() bool { return v.end != "" && v.start >= v.end }

func (v interval) intersect(w interval) (interval, bool) {
	out := interval{start: max(v.start, w.start), end: v.end}
	if out.end == "" || w.end != "" && w.end < out.end {
		out.end = w.end
	}
	return out, !out.empty()
}

// contains tells whether key lies strictly inside v: cutting v at key leaves two parts that are not
// empty.
func (v interval) contains(key string) bool {
	return v.start < key && (v.end == "" || key < v.end)
}

// rowSet is what a ReadRows request asks for: keys (ascending, each once) and intervals.
type rowSet struct {
	keys   []string
	ranges []interval
}

// newRowSet reads the wire form. ok is false when the emulator would refuse it.
func newRowSet(rows *btpb.RowSet) (_ rowSet, ok bool) {
	if len(rows.GetRowKeys())+len(rows.GetRowRanges()) == 0 {
		return rowSet{ranges: []interval{everything}}, true
	}
	rs := rowSet{keys: ordered.Map(rows.RowKeys, func(k []byte) string { return string(k) })}
	slices.Sort(rs.keys)
	rs.keys = slices.Compact(rs.keys)
	for _, r := range rows.RowRanges {
		var v interval
		switch s := r.StartKey.(type) {
		case *btpb.RowRange_StartKeyClosed:
			v.start = string(s.StartKeyClosed)
		case *btpb.RowRange_StartKeyOpen:
			v.start = successor(string(s.StartKeyOpen))
		}
		switch e := r.EndKey.(type) {
		case *btpb.RowRange_EndKeyClosed:
			v.end = successor(string(e.EndKeyClosed))
		case *btpb.RowRange_EndKeyOpen:
			v.end = string(e.EndKeyOpen)
		}
		if v.empty() {
			// The emulator decides whether to refuse such a set or to read nothing.
			return rowSet{}, false
		}
		rs.ranges = append(rs.ranges, v)
	}
	return rs, true
}

// clip returns the part of rs inside v in the wire form; ok is false when there is none (an empty
// set would mean the whole table).
func (rs rowSet) clip(v interval) (_ *btpb.RowSet, ok bool) {
	out := new(btpb.RowSet)
	for i := sort.SearchStrings(rs.keys, v.start); i < len(rs.keys) && (v.end == "" || rs.keys[i] < v.end); i++ {
		out.RowKeys = append(out.RowKeys, []byte(rs.keys[i]))
	}
	for _, r := range rs.ranges {
		if c, ok := r.intersect(v); ok {
			out.RowRanges = append(out.RowRanges, c.wire())
		}
	}
	return out, len(out.RowKeys)+len(out.RowRanges) > 0
}

func (v interval) wire() *btpb.RowRange {
	r := new(btpb.RowRange)
	if v.start != "" {
		r.StartKey = &btpb.RowRange_StartKeyClosed{StartKeyClosed: []byte(v.start)}
	}
	if v.end != "" {
		r.EndKey = &btpb.RowRange_EndKeyOpen{EndKeyOpen: []byte(v.end)}
	}
	return r
}

// parts returns what rs asks for as intervals, ascending, none of which overlap: each key, and each
// range cut at splits.
func (rs rowSet) parts(splits []string) (out []interval) {
	asked := slices.Concat(rs.ranges, ordered.Map(rs.keys, func(k string) interval { return interval{k, successor(k)} }))
	slices.SortFunc(asked, func(a, b interval) int { return strings.Compare(a.start, b.start) })
	for _, v := range asked {
		if n := len(out); n > 0 { // what is left of v
			before := out[n-1]
			if before.end == "" {
				break
			}
			if v.start = max(v.start, before.end); v.empty() {
				continue
			}
		}
		i := sort.SearchStrings(splits, successor(v.start))
		for ; i < len(splits) && v.contains(splits[i]); i++ {
			out = append(out, interval{v.start, splits[i]})
			v.start = splits[i]
		}
		out = append(out, v)
	}
	return out
}

// cut divides v into windows, ascending, such that rs has at most chunk keys in each, and its
// ranges are cut at splits.
func (rs rowSet) cut(v interval, splits []string, chunk int) []interval {
	var bounds []string
	for i := chunk; i < len(rs.keys); i += chunk {
		bounds = append(bounds, rs.keys[i])
	}
	for _, r := range rs.ranges {
		for i := sort.SearchStrings(splits, successor(r.start)); i < len(splits) && r.contains(splits[i]); i++ {
			bounds = append(bounds, splits[i])
		}
	}
	slices.Sort(bounds)
	var windows []interval
	for _, b := range slices.Compact(bounds) {
		if v.contains(b) {
			windows = append(windows, interval{v.start, b})
			v.start = b
		}
	}
	return append(windows, v)
}
