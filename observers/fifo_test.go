package observers

import (
	"testing"

	"pgregory.net/rapid"
)

func TestFifoKeepsTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		in, out := 0, 0
		for range rapid.IntRange(0, 50).Draw(t, "rounds") {
			for range rapid.IntRange(0, 3000).Draw(t, "push") {
				f.push(in)
				in++
			}
			for range min(f.len(), rapid.IntRange(0, 3000).Draw(t, "pop")) {
				if v := f.pop(); v != out {
					t.Fatalf("popped %d, want %d", v, out)
				}
				out++
			}
			if f.len() != in-out {
				t.Fatalf("length %d, want %d", f.len(), in-out)
			}
		}
	})
}
