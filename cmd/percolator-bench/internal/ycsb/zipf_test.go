package ycsb

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Numbers come as often as Zipf's law says, whether all were there from the beginning or not.
func TestZipf(t *testing.T) {
	t.Parallel()
	const n, draws = 100, 200_000
	grown := newZipf(10)
	grown.grow(n)
	for name, z := range map[string]*zipf{"new": newZipf(n), "grown": grown} {
		random, seen := rand.New(rand.NewPCG(1, 2)), [n]int{}
		for range draws {
			seen[z.next(random)]++
		}
		zeta := 0.
		for i := range n {
			zeta += math.Pow(float64(i+1), -zipfConstant)
		}
		for _, i := range []int{0, 1, 9, 49} {
			want := math.Pow(float64(i+1), -zipfConstant) / zeta
			got := float64(seen[i]) / draws
			if math.Abs(got-want) > 0.2*want { // the method is an approximation
				t.Errorf("%s: %d comes with %.4f, not %.4f", name, i, got, want)
			}
		}
	}
}

// What YCSB scatters over is as large as its zeta says: the most popular number is one of 26.
func TestZipfOfAllNumbers(t *testing.T) {
	t.Parallel()
	const draws = 100_000
	z, random, first := allNumbers(), rand.New(rand.NewPCG(1, 2)), 0
	for range draws {
		if n := z.next(random); n == 0 {
			first++
		} else if n < 0 || n >= z.n {
			t.Fatal(n)
		}
	}
	if got, want := float64(first)/draws, 1/26.469; math.Abs(got-want) > 0.1*want {
		t.Errorf("0 comes with %.4f, not %.4f", got, want)
	}
}
