package index_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/webtest"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A process that dies at any request of a merge loses no posting, and brings none back: the next
// merge finds what it left.
func TestMergeDiesAtEveryRequest(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	const documents, enough = 2 * index.MergeLeast, 64 // more requests than a merge sends
	step := fixture.Of[int64](3, 9)
	died := 0
	for at := 1 + rand.Int64N(step); at <= enough; at += step {
		w := webtest.New(t, 0)
		have := map[string]map[string]int{}
		for i := range documents {
			w.Update(func(_ context.Context, tx *percolator.Txn) error {
				url := fmt.Sprint("u", i%5)
				before := have[url]
				have[url] = map[string]int{fmt.Sprint("term", i): 1, "term0": i + 1}
				return index.WritePostings(tx, url, before, have[url])
			})
		}
		dying := w.Env.NewClient()
		var sent atomic.Int64
		w.Env.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Table != "percolator_meta" && sent.Add(1) == at {
				return percolatortest.Crash
			}
			return percolatortest.Pass
		})
		_, _ = dying.Update(w.Context(), func(ctx context.Context, tx *percolator.Txn) error {
			_, err := index.MergePart(ctx, tx, "0.00")
			return err
		})
		_ = dying.Flush(w.Context())
		if w.Env.FaultsOf(dying).Crashed() {
			died++
		}
		w.Env.Clock.Advance(time.Minute)
		wantPostings(t, w, have)
		w.Update(func(ctx context.Context, tx *percolator.Txn) error {
			_, err := index.MergePart(ctx, tx, "0.00")
			return err
		})
		wantPostings(t, w, have)
	}
	if died < fixture.Of(5, 2) {
		t.Errorf("%d merges died", died)
	}
}
