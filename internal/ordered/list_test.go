package ordered

import (
	"slices"
	"testing"
)

// What is picked from a list lies evenly between its ends, and is all of a list that is no longer.
func TestEvenly(t *testing.T) {
	t.Parallel()
	list := Map([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, func(n int) int { return 10 * n })
	for n, want := range map[int][]int{0: {}, 1: {50}, 2: {30, 60}, 3: {20, 50, 70}, 10: list, 11: list} {
		if got := Evenly(list, n); !slices.Equal(got, want) {
			t.Errorf("%d of %v: %v, want %v", n, list, got, want)
		}
	}
}
