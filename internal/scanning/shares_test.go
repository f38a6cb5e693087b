package scanning

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// The shares of all workers cover every table, whatever the bounds; a key is in one share, unless
// two bounds leave no room between them.
func TestSharesCoverEverything(t *testing.T) {
	t.Parallel()
	key := rapid.StringOfN(rapid.RuneFrom([]rune{'\x00', 'a', 'b', 'ÿ'}), 0, 10, -1)
	rapid.Check(t, func(t *rapid.T) {
		bounds := rapid.SliceOfN(key, 0, 40).Draw(t, "bounds")
		slices.Sort(bounds)
		divided := len(bounds) > 0 && bounds[len(bounds)-1] != ""
		n := rapid.IntRange(1, 60).Draw(t, "workers")
		probe := key.Draw(t, "probe")
		in, end := 0, ""
		for i := range n {
			r := Share(bounds, i, n)
			if probe >= r.Start && (r.End == "" || probe < r.End) {
				in++
			}
			if !divided || n == 1 {
				if r != percolator.All() {
					t.Fatalf("%d of %d without bounds: %q", i, n, r)
				}
				continue
			}
			if i == 0 && r.Start != "" || i > 0 && r.Start > end || i == n-1 && r.End != "" || i < n-1 && r.End == "" {
				t.Fatalf("share %d of %d is %q, after one that ends at %q", i, n, r, end)
			}
			end = r.End
		}
		if in == 0 {
			t.Fatalf("%q is in no share", probe)
		}
		if in > 1 && divided && n > 1 && probe != "" {
			t.Fatalf("%q is in %d shares", probe, in)
		}
	})
	for _, i := range []int{-1, 3, 4} {
		if r := Share([]string{"m"}, i, 3); r != percolator.All() {
			t.Errorf("worker %d of 3 has %q", i, r)
		}
	}
}

// With bounds at equal distances all shares are about as large.
func TestSharesAreFair(t *testing.T) {
	t.Parallel()
	var bounds []string
	for i := range 99 {
		bounds = append(bounds, fmt.Sprintf("row%02d", i+1))
	}
	var keys []string
	for row := range 10_000 {
		keys = append(keys, fmt.Sprintf("row%04d", row))
	}
	for _, n := range []int{1, 2, 3, 7, 50} {
		for i := range n {
			r, count := Share(bounds, i, n), 0
			for _, key := range keys {
				if key >= r.Start && (r.End == "" || key < r.End) {
					count++
				}
			}
			if want := 10_000 / n; count < want*2/3-100 || count > want*3/2+100 {
				t.Errorf("share %d of %d has %d rows, want about %d", i, n, count, want)
			}
		}
	}
}

func TestKnownBounds(t *testing.T) {
	t.Parallel()
	tablets := []string{}
	p := newTestPlaces(func(context.Context, string) ([]string, error) { return tablets, nil })
	if keys, _ := p.Known("t", 8); keys != nil {
		t.Errorf("%q of a table of which nothing is known", keys)
	}
	for i := range sampledRows {
		p.Met("t", fmt.Sprintf("%02d", i))
	}
	keys, isTablets := p.Known("t", 3)
	if fmt.Sprint(keys) != "[16 32 48]" || isTablets {
		t.Errorf("%q, %v of %d rows", keys, isTablets, sampledRows)
	}
	if keys, _ := p.Known("t", 0); keys != nil {
		t.Errorf("%q, want none", keys)
	}
	p.Forget("t")
	if keys, _ := p.Known("t", 8); keys != nil {
		t.Errorf("%q of rows that are forgotten", keys)
	}
	for i := range fewTablets {
		tablets = append(tablets, fmt.Sprint(i))
	}
	p.Pick(t.Context(), "u", percolator.All())
	if keys, isTablets := p.Known("u", 100); len(keys) != fewTablets || !isTablets {
		t.Errorf("%q, %v", keys, isTablets)
	}
}

// readings is a Source that notes what is read; every table is empty.
type readings struct{ ranges []percolator.Range }

func (s *readings) ReadPage(_ context.Context, _ string, r percolator.Range, _ int, _ func(string) bool) (Page, error) {
	s.ranges = append(s.ranges, r)
	return Page{}, nil
}

func (s *readings) Work(context.Context, []model.Pending) (foundNew, inQueue bool) {
	return false, false
}

// A scanner reads its part, with two requests at most, and everything now and then.
func TestScannerKeepsToItsShare(t *testing.T) {
	t.Parallel()
	source, mine := &readings{}, percolator.Between("g", "p")
	s := &Scanner{
		Source: source, Tables: []string{"t"}, Counts: &Counts{}, Now: time.Now, Random: seeded(), Rows: NewRowLocks(),
		Places: newTestPlaces(func(context.Context, string) ([]string, error) {
			return []string{"c", "h", "k", "q", "s", "t", "u", "v"}, nil
		}),
		Remote: NewRemoteLocks(nil, nothingLeft, time.Now),
		Shares: func(string) percolator.Range { return mine },
	}
	whole := 0
	for i := range 10 * wholeEvery {
		source.ranges = nil
		if _, _, err := s.Search(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(source.ranges) > 2 {
			t.Fatalf("search %d reads %q", i, source.ranges)
		}
		part := mine
		if source.ranges[0].End == "" {
			part = percolator.All()
			whole++
		}
		for key := byte('a'); key <= 'z'; key++ {
			k, times := string(key), 0
			for _, r := range source.ranges {
				if k >= r.Start && (r.End == "" || k < r.End) {
					times++
				}
			}
			if inside := k >= part.Start && (part.End == "" || k < part.End); inside != (times == 1) {
				t.Fatalf("search %d reads %q: %q %d times", i, source.ranges, k, times)
			}
		}
	}
	if whole != 10 {
		t.Errorf("%d of %d searches were of everything", whole, 10*wholeEvery)
	}
}
