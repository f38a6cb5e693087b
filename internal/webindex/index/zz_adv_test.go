package index_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/index"
	"github.com/gopercolator/percolator/internal/webindex/webtest"
)

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
