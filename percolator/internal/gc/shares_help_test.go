package gc_test

import (
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A collector resolves locks of another one's cycle, and that one dies. It returns when the lease
// has run out, with what it did in the phase that it knows; that is no cycle of its own.
func TestHelpInACycleThatStops(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testHelpInACycleThatStops)
}

func testHelpInACycleThatStops(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	fixture.Strand(t, ctx, env, fixture.Cell("primary", "c"), fixture.Cell("secondary", "c"))
	env.Clock.Advance(fixture.PastRetention)
	leader, helper := env.NewClient(fixture.ShortRetention), env.NewClient(fixture.ShortRetention)
	var resolves atomic.Bool
	var stored atomic.Int32 // with the locks to be resolved: the shares, then the first of them
	env.FaultsOf(leader).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Row == "collector" && r.Method == percolatortest.CheckAndMutateRow && resolves.Load() && stored.Add(1) == 2 {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	_, err := fixture.NewCollector(t, leader, model.CollectorConfig{Progress: func(col model.Collection) {
		resolves.Store(col.Phase == model.CollectionResolve)
	}}).Collect(ctx)
	if err == nil {
		t.Fatal("the collector did not die")
	}
	col, err := fixture.NewCollector(t, helper, model.CollectorConfig{}).Collect(ctx)
	fixture.Must(t, err)
	if col.Phase != model.CollectionResolve || col.Locks != 1 || col.Holder == "" {
		t.Errorf("%+v", col)
	}
	if n := helper.Engine().Store.Count.Cycles.Load(); n != 0 {
		t.Errorf("%d cycles counted", n)
	}
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}
