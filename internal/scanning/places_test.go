package scanning

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator"
)

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func newTestPlaces(sample func(context.Context, string) ([]string, error)) *Places {
	return NewPlaces(sample, time.Now, seeded())
}

func TestPlaceLiesBetweenItsBounds(t *testing.T) {
	t.Parallel()
	key := rapid.StringOfN(rapid.RuneFrom([]rune{'\x00', 'a', 'b', 'c'}), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		from, to := key.Draw(t, "from"), key.Draw(t, "to")
		if to != "" && from >= to {
			from, to = to, from
		}
		if from == to {
			to = ""
		}
		k := between(from, to, rand.Uint64N)
		if k < from || (to != "" && k >= to) {
			t.Fatalf("between(%q, %q) = %q", from, to, k)
		}
	})
}

func TestPositionsSpread(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var tablets []string
	for i := range 20 {
		tablets = append(tablets, fmt.Sprintf("row%02d", i))
	}
	asked := 0
	p := newTestPlaces(func(context.Context, string) ([]string, error) {
		asked++
		return tablets, nil
	})
	hit := make([]int, len(tablets)+1)
	for range 2000 {
		k := p.Pick(ctx, "t", percolator.All())
		hit[sort.Search(len(tablets), func(i int) bool { return k < tablets[i] })]++
	}
	for i, n := range hit {
		if n < 20 { // of about 95
			t.Errorf("started %d times in tablet %d", n, i)
		}
	}
	if asked != 1 {
		t.Errorf("asked for the tablets %d times", asked)
	}
}

func TestPositionsWithoutTablets(t *testing.T) {
	t.Parallel()
	p := newTestPlaces(func(context.Context, string) ([]string, error) { return nil, errors.New("unimplemented") })
	if k := p.Pick(t.Context(), "t", percolator.All()); k > "" && len(k) != 8 {
		t.Fatalf("picked %q of a table of which nothing is known", k)
	}
	for i := range 10_000 {
		p.Met("t", fmt.Sprint(i%100))
	}
	if n := len(p.table("t").rows); n != sampledRows {
		t.Fatalf("%d rows remembered", n)
	}
	hit := map[string]bool{}
	for range 5000 {
		hit[p.Pick(t.Context(), "t", percolator.All())] = true
	}
	if len(hit) < sampledRows/2 {
		t.Fatalf("started at %d places only", len(hit))
	}
}

// The boundaries of tablets are asked for once a minute, however often a place is picked, and again
// after that: a table may have been split.
func TestTabletsAreAskedForOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		p := newTestPlaces(func(context.Context, string) ([]string, error) {
			asked.Add(1)
			return []string{"m"}, nil
		})
		const minutes = 10
		for started := time.Now(); time.Since(started) < minutes*time.Minute-time.Second; time.Sleep(2 * time.Second) {
			p.Pick(t.Context(), "t", percolator.All())
		}
		if n := asked.Load(); n != minutes {
			t.Errorf("asked %d times in %d minutes", n, minutes)
		}
	})
}
