package bench

import "testing"

func TestRangeOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counts []int
		want   Range
		text   string
	}{{nil, Range{}, "0"}, {[]int{3}, Range{3, 3}, "3"}, {[]int{2, 1, 2, 4}, Range{1, 4}, "1-4"}, {[]int{0, 0}, Range{}, "0"}} {
		if got := rangeOf(c.counts); got != c.want || got.String() != c.text {
			t.Errorf("%v: %v %q, want %v %q", c.counts, got, got, c.want, c.text)
		}
	}
}
