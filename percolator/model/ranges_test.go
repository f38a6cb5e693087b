package model

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the ranges, their union holds the same keys, in ranges that are apart; so do the parts
// of it that meet or lie in another range.
func TestUnionOfRangesHoldsTheSameKeys(t *testing.T) {
	t.Parallel()
	key := rapid.SampledFrom([]string{"", "\x00", "a", "a\x00", "a\x00\x00", "ab", "b", "b\xff", "c", "\xff", "\xff\xff"})
	anyRange := rapid.Custom(func(t *rapid.T) Range {
		k := key.Draw(t, "key")
		return rapid.SampledFrom([]Range{Row(k), Prefix(k), Between(k, key.Draw(t, "end")), Between(k, ""), All()}).Draw(t, "range")
	})
	rapid.Check(t, func(t *rapid.T) {
		ranges := rapid.SliceOfN(anyRange, 0, 6).Draw(t, "ranges")
		given := slices.Clone(ranges)
		all, r, k := Union(ranges...), anyRange.Draw(t, "within"), key.Draw(t, "probe")
		if !slices.Equal(ranges, given) {
			t.Fatalf("the ranges became %q", ranges)
		}
		for _, rs := range []Ranges{all, all.Within(r), all.Meeting(r)} {
			for i, one := range rs {
				if EmptyRange(one) || i > 0 && (rs[i-1].End == "" || rs[i-1].End >= one.Start) {
					t.Fatalf("%q of %q", rs, ranges)
				}
			}
		}
		in := slices.ContainsFunc(ranges, func(one Range) bool { return InRange(one, k) })
		if got := all.Contain(k); got != in {
			t.Fatalf("%q in %q: %v", k, all, got)
		}
		if got := all.Within(r).Contain(k); got != (in && InRange(r, k)) {
			t.Fatalf("%q in %q within %q: %v", k, all, r, got)
		}
		for _, one := range all {
			if meets := len(Ranges{one}.Within(r)) > 0; slices.Contains(all.Meeting(r), one) != meets {
				t.Fatalf("%q meets %q: %v", one, r, meets)
			}
		}
	})
}

func TestSelectionIsOfNamesAndRanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o             ScanOptions
		rows, columns Ranges
	}{
		"none":          {ScanOptions{}, Ranges{All()}, Ranges{All()}},
		"empty slices":  {ScanOptions{Rows: []Range{}, Columns: []string{}, ColumnRanges: []Range{}}, Ranges{All()}, Ranges{All()}},
		"an empty row":  {ScanOptions{Rows: []Range{Between("b", "a")}}, nil, Ranges{All()}},
		"names":         {ScanOptions{Columns: []string{"b", "a", "b"}}, Ranges{All()}, Ranges{Row("a"), Row("b")}},
		"both":          {ScanOptions{Columns: []string{"b", "d"}, ColumnRanges: []Range{Between("a", "c")}}, Ranges{All()}, Ranges{Between("a", "c"), Row("d")}},
		"an empty one":  {ScanOptions{ColumnRanges: []Range{Between("b", "b")}}, Ranges{All()}, nil},
		"a name beside": {ScanOptions{Columns: []string{"a"}, ColumnRanges: []Range{Between("b", "b")}}, Ranges{All()}, Ranges{Row("a")}},
	} {
		if rows, columns := SelectedRows(c.o), SelectedColumns(c.o); !slices.Equal(rows, c.rows) || !slices.Equal(columns, c.columns) {
			t.Errorf("%s: rows %q and columns %q, want %q and %q", name, rows, columns, c.rows, c.columns)
		}
	}
}
