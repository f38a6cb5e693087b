package gc_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Two attempts in a row to renew the collector's lease that remain without an answer cost neither
// the lease nor the cycle.
func TestCollectorRenewsItsLeaseThoughTwoAttemptsAreLost(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectorRenewsItsLeaseThoughTwoAttemptsAreLost)
}

func testCollectorRenewsItsLeaseThoughTwoAttemptsAreLost(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "old")
	fixture.Put(t, ctx, c, "r", "c", "new")
	env.Clock.Advance(fixture.PastRetention)
	renewals, hold := 0, percolatortest.NewHold()
	defer hold.Drop()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method != percolatortest.CheckAndMutateRow || r.Row != "collector" {
			return percolatortest.Pass
		}
		if renewals++; renewals == 3 || renewals == 4 { // after the lease was taken, and the drain started
			return hold
		}
		return percolatortest.Pass
	})
	col, err := fixture.NewCollector(t, c, model.CollectorConfig{Lease: time.Second}).Collect(ctx)
	fixture.Must(t, err)
	if col.Versions != 2 || len(hold.Requests()) != 2 {
		t.Errorf("collected %+v, with %d attempts lost", col, len(hold.Requests()))
	}
}

// While the collector waits for a page it renews its lease whenever a third has passed: later, two
// attempts that are lost would cost it.
func TestCollectorRenewsItsLeaseWhileItWaitsForAPage(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectorRenewsItsLeaseWhileItWaitsForAPage)
}

func testCollectorRenewsItsLeaseWhileItWaitsForAPage(t *testing.T) {
	env := fixture.NewCollectorEnv(t, fixture.ByPasses)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	env.Clock.Advance(fixture.PastRetention)
	const lease = time.Second
	var mu sync.Mutex
	var renewals []time.Time
	held := percolatortest.NewHold()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		mu.Lock()
		defer mu.Unlock()
		switch waits := len(held.Requests()) > 0; {
		case !waits && r.Method == percolatortest.ReadRows && r.Table == "t":
			return held.Answer()
		case waits && r.Method == percolatortest.CheckAndMutateRow && r.Row == "collector":
			renewals = append(renewals, time.Now())
		}
		return percolatortest.Pass
	})
	done := make(chan error, 1)
	go func() {
		_, err := fixture.NewCollector(t, c, model.CollectorConfig{Lease: lease}).Collect(ctx)
		done <- err
	}()
	var gaps []time.Duration
	fixture.Eventually(t, "four renewals", func() bool {
		mu.Lock()
		defer mu.Unlock()
		gaps = nil
		for i := 1; i < min(len(renewals), 4); i++ {
			gaps = append(gaps, renewals[i].Sub(renewals[i-1]))
		}
		return len(gaps) == 3
	})
	slices.Sort(gaps)
	if gaps[1] > lease/2 {
		t.Errorf("a lease of %v is renewed after %v", lease, gaps)
	}
	held.Release()
	fixture.Must(t, <-done)
}
