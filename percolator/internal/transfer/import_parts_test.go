package transfer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// Parts follow one another from the beginning of a table to its end. There are at most so many, and
// the pieces between two keys are shared out evenly.
func TestPartsOf(t *testing.T) {
	for most := 1; most < 12; most++ {
		for n := range 50 {
			keys := []string{""} // which servers name for the end of the table
			for i := range n {
				keys = append(keys, fmt.Sprintf("%02d", i), fmt.Sprintf("%02d", i))
			}
			parts := partsOf(slices.Clone(keys), most)
			if want := min(most, n+1); len(parts) != want {
				t.Fatalf("%d keys, %d parts, not %d", n, len(parts), want)
			}
			end, share := "", (n+1)/len(parts)
			for i, p := range parts {
				if last := i == len(parts)-1; p.Start != end || (p.End == "") != last {
					t.Fatalf("%d keys: %v", n, parts)
				}
				if c := pieces(p, keys); c < share || c > share+1 {
					t.Fatalf("%d keys, %d pieces in %v: %v", n, c, p, parts)
				}
				end = p.End
			}
		}
	}
}

// pieces counts those between two keys in a part: each begins with a key, the first one with "".
func pieces(p model.Range, keys []string) (n int) {
	for _, k := range slices.Compact(slices.Clone(keys)) {
		if k >= p.Start && (p.End == "" || k < p.End) {
			n++
		}
	}
	return n
}
