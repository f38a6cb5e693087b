package observers

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A scanner that finds nothing searches at most 40 times a minute, once its pauses have grown.
func TestIdleSearches(t *testing.T) {
	t.Parallel()
	for range 100 {
		var p pace
		for p.current < maxScanPause {
			p.next(false, 0)
		}
		searches := 0
		for passed := time.Duration(0); passed < time.Minute; searches++ {
			passed += p.next(false, 0)
		}
		if searches > 40 {
			t.Fatalf("%d searches in a minute", searches)
		}
	}
}

// The boundaries of tablets are asked for once a minute, however often a place is picked, and again after that: a table
// may have been split.
func TestTabletsAreAskedForOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		p := newPositions(func(context.Context, string) ([]string, error) {
			asked.Add(1)
			return []string{"m"}, nil
		})
		const minutes = 10
		for begun := time.Now(); time.Since(begun) < minutes*time.Minute-time.Second; time.Sleep(2 * time.Second) {
			p.pick(t.Context(), "t")
		}
		if n := asked.Load(); n != minutes {
			t.Errorf("asked %d times in %d minutes", n, minutes)
		}
	})
}
