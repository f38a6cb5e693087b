package ordered

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type number struct{ n, at int }

func (x *number) Before(y *number) bool { return x.n < y.n }
func (x *number) Placed(at int)         { x.at = at }

// Items leave in their order, whatever came, left and changed before; each knows its place.
func TestHeapIsInOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var h Heap[*number]
	for range 2000 {
		switch h.Len() {
		default:
			x := h.All()[r.IntN(h.Len())]
			switch r.IntN(4) {
			case 0:
				if h.Remove(x.at); x.at != -1 {
					t.Fatalf("what was removed has place %d", x.at)
				}
			case 1:
				x.n = r.IntN(100)
				h.Fix(x.at)
			case 2:
				for _, x := range h.All() {
					x.n = r.IntN(100)
				}
				h.Init()
			}
			fallthrough
		case 0:
			h.Push(&number{n: r.IntN(100)})
		}
		for at, x := range h.All() {
			if x.at != at || x.n < h.First().n {
				t.Fatalf("place %d has %+v, and the first is %+v", at, x, h.First())
			}
		}
	}
	var popped []int
	for h.Len() > 0 {
		popped = append(popped, h.Pop().n)
	}
	if !slices.IsSorted(popped) {
		t.Errorf("they leave in the order %v", popped)
	}
}
