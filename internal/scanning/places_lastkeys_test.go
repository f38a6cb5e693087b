package scanning

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// TestPickBehindTheLastNumber: row keys may begin with any bytes. Behind eight bytes 0xff there is
// no number left to choose from; a scanner that is to begin there must not take its process down.
func TestPickBehindTheLastNumber(t *testing.T) {
	last := strings.Repeat("\xff", 8)
	r := rand.New(rand.NewPCG(1, 1))
	// A worker's part of a table, by the bounds that are stored in percolator_meta (rows that
	// others have met).
	none := func(context.Context, string) ([]string, error) { return nil, nil }
	for name, pick := range map[string]func() string{
		"the last part of a divided table": func() string {
			part := Share([]string{"b", last + "row"}, 2, 3)
			return NewPlaces(none, time.Now, r).Pick(t.Context(), "t", part)
		},
		"the last tablet": func() string {
			tablets := []string{"a", "b", "c", "d", "e", "f", "g", last}
			p := NewPlaces(func(context.Context, string) ([]string, error) { return tablets, nil }, time.Now, r)
			for range 200 {
				p.Pick(t.Context(), "t", percolator.All())
			}
			return last
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("panic: %v", p)
				}
			}()
			if k := pick(); k < last {
				t.Errorf("begins at %q", k)
			}
		})
	}
}
