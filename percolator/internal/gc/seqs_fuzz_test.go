package gc

import (
	"slices"
	"testing"
)

// FuzzSeqs: seqs hold what was added, and after takes from them what it says, however the numbers
// lie.
func FuzzSeqs(f *testing.F) {
	f.Add([]byte{1, 1, 1}, uint64(2))
	f.Add([]byte{1, 2, 1, 200}, uint64(0))
	f.Add([]byte{255, 1, 1, 255, 9}, uint64(256))
	f.Add([]byte{}, uint64(7))
	f.Fuzz(func(t *testing.T, steps []byte, through uint64) {
		var s seqs
		var want []uint64
		at := uint64(0)
		for _, step := range steps {
			at += uint64(step) + 1
			s, want = s.with(at), append(want, at)
		}
		before := slices.Clone(s)
		rest := s.after(through)
		if !s.valid() || !rest.valid() || !slices.Equal(s, before) {
			t.Fatalf("%v, after %d: %v; before: %v", s, through, rest, before)
		}
		if len(s) > 0 && s[len(s)-1] != at {
			t.Errorf("the last of %v is not %d", s, at)
		}
		for n := range at + 2 {
			_, in := slices.BinarySearch(want, n)
			if s.contains(n) != in || rest.contains(n) != (in && n > through) {
				t.Fatalf("%d of %v, after %d: %v", n, s, through, rest)
			}
		}
	})
}
