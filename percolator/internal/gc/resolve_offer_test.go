package gc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A collector ends, and gives its lease up, while it stores the shares of which the locks are to be
// resolved. Its successor does not take them for offered: it resolves all locks before it publishes
// the watermark (J12).
func TestOfferThatWasNotStored(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testOfferThatWasNotStored)
}

func testOfferThatWasNotStored(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	fixture.Strand(t, ctx, env, fixture.Cell("primary", "c"), fixture.Cell("secondary", "c"))
	env.Clock.Advance(fixture.PastRetention)
	first := env.NewClient(fixture.ShortRetention)
	ended, end := context.WithCancel(ctx)
	var offers atomic.Bool
	env.FaultsOf(first).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Row == "collector" && r.Method == percolatortest.CheckAndMutateRow && offers.CompareAndSwap(true, false) {
			end()
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	_, err := fixture.NewCollector(t, first, model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase == model.CollectionResolve && ended.Err() == nil {
			offers.Store(true)
		}
	}}).Collect(ended)
	fixture.WantErr(t, err, context.Canceled)
	if c := runCycle(t, ctx, env, env.NewClient(fixture.ShortRetention)); c.locksLeft != 0 {
		t.Errorf("%d locks were left when the watermark was published", c.locksLeft)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("secondary", "c"), "stranded")
}
