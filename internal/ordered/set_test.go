package ordered

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// place is a number that counts how often it is compared.
type place struct {
	n        int
	compared *int
}

func (p place) Compare(q place) int {
	*p.compared++
	return p.n - q.n
}

// Whatever came and left, and in whatever order, every part of a set is what a sorted slice has
// there, forward and in reverse.
func TestSetIsInOrder(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 20, 3000} { // distinct items: some sets have a run, some many
		r := rand.New(rand.NewPCG(1, uint64(most)))
		var s Set[place]
		var want []int
		at := func(n int) place { return place{n, new(int)} }
		for range 10_000 {
			n := r.IntN(most)
			i, found := slices.BinarySearch(want, n)
			switch {
			case r.IntN(5) < 3:
				if s.Insert(at(n)); !found {
					want = slices.Insert(want, i, n)
				}
			default:
				if s.Delete(at(n)); found {
					want = slices.Delete(want, i, i+1)
				}
			}
			from, to := r.IntN(most+2)-1, r.IntN(most+2)-1
			if r.IntN(4) > 0 {
				to = min(to, from+20)
			}
			for _, reverse := range []bool{false, true} {
				var got, part []int
				for x := range s.Between(at(from), at(to), reverse) {
					got = append(got, x.n)
				}
				for _, n := range want {
					if n >= from && n < to {
						part = append(part, n)
					}
				}
				if reverse {
					slices.Reverse(part)
				}
				if !slices.Equal(got, part) {
					t.Fatalf("from %d to %d, reverse %v: %d, want %d", from, to, reverse, got, part)
				}
			}
		}
	}
}

// A consumer may break off anywhere.
func TestSetIsLeftInTheMiddle(t *testing.T) {
	t.Parallel()
	var s Set[place]
	for n := range 1000 {
		s.Insert(place{n, new(int)})
	}
	for _, reverse := range []bool{false, true} {
		left := 300
		for range s.Between(place{0, new(int)}, place{1000, new(int)}, reverse) {
			if left--; left == 0 {
				break
			}
		}
	}
}

// What an item costs grows with the digits of how many there are.
func TestSetComparesLittle(t *testing.T) {
	t.Parallel()
	compared, r := 0, rand.New(rand.NewPCG(1, 2))
	var s Set[place]
	for there, n := range r.Perm(100_000) {
		before := compared
		s.Insert(place{n, &compared})
		if got := compared - before; got > bits.Len(uint(there))+3 {
			t.Fatalf("an insertion beside %d items compares %d times", there, got)
		}
	}
	for range 1000 {
		before, n := compared, r.IntN(100_000)
		for range s.Between(place{n, &compared}, place{n + 1, &compared}, false) {
		}
		s.Delete(place{n, &compared})
		if got := compared - before; got > 3*(bits.Len(100_000)+3) {
			t.Fatalf("to find and delete one of 100,000 items compares %d times", got)
		}
	}
}
