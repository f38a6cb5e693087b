package catalog

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator/model"
)

// Whatever the ranges, their union holds the same keys, in ranges that are apart; so do the parts
// of it that meet or lie in another range.
func TestUnionOfRangesHoldsTheSameKeys(t *testing.T) {
	t.Parallel()
	key := rapid.SampledFrom([]string{"", "\x00", "a", "a\x00", "a\x00\x00", "ab", "b", "b\xff", "c", "\xff", "\xff\xff"})
	anyRange := rapid.Custom(func(t *rapid.T) model.Range {
		k := key.Draw(t, "key")
		return rapid.SampledFrom([]model.Range{model.Row(k), model.Prefix(k), model.Between(k, key.Draw(t, "end")), model.Between(k, ""), model.All()}).Draw(t, "range")
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
		in := slices.ContainsFunc(ranges, func(one model.Range) bool { return InRange(one, k) })
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

// anyBytes are names as users may choose them: any bytes, often awkward ones.
func anyBytes(least, most int) *rapid.Generator[string] {
	awkward := rapid.SampledFrom([]byte{0, 1, 0xff, 0xfe, '.', '*', '|', '\\', '\n', '"', ':', 'a', 'b', 0xc3, 0xa4})
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(awkward, rapid.Byte()), least, most), func(b []byte) string { return string(b) })
}

func TestPrefixIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, key := anyBytes(0, 4).Draw(t, "prefix"), anyBytes(0, 6).Draw(t, "key")
		want := len(key) >= len(p) && key[:len(p)] == p
		if got := InRange(model.Prefix(p), key); got != want {
			t.Errorf("Prefix(%q) contains %q: %v", p, key, got)
		}
		if InRange(model.Row(p), key) != (p == key) {
			t.Errorf("Row(%q) contains %q", p, key)
		}
	})
}
