package index_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// However segments are merged, a term is found where the last change says. At rest a part has few
// segments.
func TestMergedSegmentsSayTheSame(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	w := webtest.New(t, 0)
	random := rand.New(rand.NewPCG(20, 10))
	have := map[string]map[string]int{} // by URL
	for round := range fixture.Of(300, 100) {
		w.Update(func(_ context.Context, tx *percolator.Txn) error {
			url, terms := fmt.Sprint("u", random.IntN(20)), map[string]int{}
			for range random.IntN(6) {
				terms[fmt.Sprint("term", random.IntN(40))] = 1 + random.IntN(3)
			}
			before := have[url]
			have[url] = terms
			return index.WritePostings(tx, url, before, terms)
		})
		if random.IntN(10) == 0 {
			mergeAll(w, random)
		}
		if round%20 == 0 {
			wantPostings(t, w, have)
		}
	}
	for url, terms := range have {
		w.Update(func(_ context.Context, tx *percolator.Txn) error { return index.WritePostings(tx, url, terms, nil) })
		have[url] = nil
	}
	mergeAll(w, random)
	wantPostings(t, w, have)
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		segments := map[string]int{}
		seen := map[string]bool{}
		for e, err := range snap.Scan(ctx, index.Segments, percolator.Between("0", "9")) {
			if err != nil {
				return err
			}
			if !seen[e.Cell.Row] {
				seen[e.Cell.Row] = true
				segments[e.Cell.Row[:4]]++
			}
		}
		for part, n := range segments {
			if n >= index.MergeLeast {
				t.Errorf("part %s has %d segments", part, n)
			}
		}
		deepest, err := index.Deepest.Get(ctx, snap, index.DeepestRow)
		if deepest < 2 {
			t.Errorf("the deepest level is %d: %v", deepest, err)
		}
		return nil
	})
}

// mergeAll merges until no part has enough segments, one part after the other in random order.
func mergeAll(w *webtest.Web, random *rand.Rand) {
	for merged := true; merged; {
		merged = false
		for _, i := range random.Perm(1 + 3*index.SegmentParts) {
			part := "0.00"
			if i > 0 {
				part = fmt.Sprintf("%d.%02x", 1+(i-1)/index.SegmentParts, (i-1)%index.SegmentParts)
			}
			w.Update(func(ctx context.Context, tx *percolator.Txn) error {
				n, err := index.MergePart(ctx, tx, part)
				merged = merged || n
				return err
			})
		}
	}
}

func wantPostings(t *testing.T, w *webtest.Web, have map[string]map[string]int) {
	t.Helper()
	want := map[string]map[string]int{}
	for url, terms := range have {
		for term, n := range terms {
			if want[term] == nil {
				want[term] = map[string]int{}
			}
			want[term][url] = n
		}
	}
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		for i := range 40 {
			term := fmt.Sprint("term", i)
			found, partial, err := index.Lookup(ctx, snap, term, 1000)
			if err != nil {
				return err
			}
			if partial || !maps.Equal(found, want[term]) {
				t.Errorf("%s is found %v, and documents have it %v", term, found, want[term])
			}
		}
		return nil
	})
}

// What the oldest segments say of terms that are gone is forgotten when they are merged.
func TestMergeForgetsTermsThatAreGone(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 0)
	for range index.MergeLeast {
		w.Update(func(_ context.Context, tx *percolator.Txn) error {
			return index.WritePostings(tx, "u", map[string]int{"gone": 1, "kept": 1}, map[string]int{"kept": 2})
		})
	}
	mergeAll(w, rand.New(rand.NewPCG(1, 1)))
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		for e, err := range snap.Scan(ctx, index.Segments, percolator.Between("0", "9")) {
			if err != nil {
				return err
			}
			if e.Cell.Row[:1] != "1" {
				t.Errorf("left: %s", e.Cell)
			}
			if e.Cell.Column == index.SegmentBytes.Name {
				continue
			}
			said, err := index.PostingsIn(e.Cell.Column).Decode(e.Cell.Row, e.Value)
			if err != nil || len(said) != 1 || !maps.Equal(said["kept"], map[string]int{"u": 2}) {
				t.Errorf("%s says %v: %v", e.Cell, said, err)
			}
		}
		return nil
	})
}

// A look-up ends at its limit, and says so.
func TestPostingsAreLimited(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 0)
	for i := range 3 {
		w.Update(func(_ context.Context, tx *percolator.Txn) error {
			return index.WritePostings(tx, fmt.Sprint("u", i), nil, map[string]int{"term": 1})
		})
	}
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		for limit := range 4 {
			found, partial, err := index.Lookup(ctx, snap, "term", limit)
			if err != nil || len(found) != limit || partial != (limit < 3) {
				t.Errorf("limit %d: %v, partial %v, %v", limit, found, partial, err)
			}
		}
		return nil
	})
}

// Rows that are no segment's are refused.
func TestParseSegment(t *testing.T) {
	t.Parallel()
	for _, s := range []index.Segment{{0, 0, 1}, {1, 0x3f, 1 << 40}, {index.MaxLevel, 7, 1<<63 - 1}} {
		if got, err := index.ParseSegment(s.Row()); got != s || err != nil {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
	for _, row := range []string{"", "levels", "0.00", "0.00.", "0.00.1", "0.0.0000000000000001", "0.00.0000000000000001x", "x.00.0000000000000001"} {
		if got, err := index.ParseSegment(row); err == nil {
			t.Errorf("%q: %v", row, got)
		}
	}
}

// Terms that share a cell of a segment do not hide each other: a younger segment with one of them
// leaves what an older one says of the other.
func TestTermsOfACellAreIndependent(t *testing.T) {
	t.Parallel()
	w := webtest.New(t, 0)
	first := "term0"
	var second string
	for i := 1; second == ""; i++ {
		if term := fmt.Sprint("term", i); index.PostingsOf(term).Name == index.PostingsOf(first).Name {
			second = term
		}
	}
	w.Update(func(_ context.Context, tx *percolator.Txn) error {
		return index.WritePostings(tx, "a", nil, map[string]int{first: 1, second: 2})
	})
	w.Update(func(_ context.Context, tx *percolator.Txn) error {
		return index.WritePostings(tx, "b", nil, map[string]int{second: 3})
	})
	w.Update(func(_ context.Context, tx *percolator.Txn) error {
		return index.WritePostings(tx, "a", map[string]int{first: 1, second: 2}, map[string]int{first: 1})
	})
	w.View(func(ctx context.Context, snap *percolator.Snapshot) error {
		for term, want := range map[string]map[string]int{first: {"a": 1}, second: {"b": 3}} {
			found, partial, err := index.Lookup(ctx, snap, term, 1000)
			if err != nil || partial || !maps.Equal(found, want) {
				t.Errorf("%s is found %v, want %v: %v", term, found, want, err)
			}
		}
		return nil
	})
}
