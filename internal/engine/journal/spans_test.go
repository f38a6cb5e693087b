package journal

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// Spans contain what a set does: more only once they were narrowed, and never less.
func TestSpansAgainstASet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(12, seed))
		var s spans
		set, narrowed := map[uint64]bool{}, false
		for range 100 {
			from := 1 + r.Uint64N(80)
			to := from + r.Uint64N(6)
			switch r.IntN(5) {
			case 0, 1, 2:
				s.add(from, to)
			case 3:
				s.remove(from, to)
			case 4:
				most := 1 + r.IntN(20)
				narrowed = narrowed || len(s) > most
				if s.narrow(most); len(s) > most {
					t.Fatalf("%v are more than %d", s, most)
				}
				continue
			}
			for n := from; n < to; n++ {
				set[n] = len(s) > 0 && s.Contains(n)
			}
			for n := range uint64(90) {
				if had := s.Contains(n); set[n] && !had || had && !set[n] && !narrowed {
					t.Fatalf("seed %d: %v, and %d is %v among them", seed, s, n, set[n])
				}
			}
			again, ok := decodeSpans(s.encode())
			if !ok || len(s) > 0 && !reflect.DeepEqual(again, s) || len(s) != len(again) {
				t.Fatalf("%v comes back as %v, %v", s, again, ok)
			}
		}
	}
}

// Whatever a cell holds: what it does not say is open, and what it says is within the low position.
func FuzzDecodeOpen(f *testing.F) {
	for _, b := range [][]byte{nil, {}, {1}, {1, 1, 1}, {1, 3, 2, 1, 1}, {2, 1, 1}, {1, 0x80}, {1, 1, 0}, {1, 0, 5, 0, 5}} {
		f.Add(b, uint64(9))
	}
	f.Fuzz(func(t *testing.T, value []byte, low uint64) {
		open := decodeOpen(low, value)
		s, ok := decodeSpans(value)
		if !ok && low > 1 && (!open.Contains(1) || !open.Contains(low-1) || open.Contains(low)) {
			t.Errorf("of %x below %d there is %v", value, low, open)
		}
		if ok && string(s.encode()) != string(value) {
			if again, fine := decodeSpans(s.encode()); !fine || !reflect.DeepEqual(s, again) {
				t.Errorf("%x comes back as %x", value, s.encode())
			}
		}
	})
}
