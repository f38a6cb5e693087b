package admin_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Two attempts in a row to renew the collector's lease that remain without an answer cost neither
// the lease nor the cycle.
func TestCollectorRenewsItsLeaseThoughTwoAttemptsAreLost(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "old")
	fixture.Put(t, ctx, c, "r", "c", "new")
	env.Clock.Advance(afterwards)
	renewals, hold := 0, percolatortest.NewHold()
	defer hold.Drop()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method != percolatortest.CheckAndMutateRow || r.Row != "collector" {
			return percolatortest.Pass
		}
		if renewals++; renewals == 3 || renewals == 4 { // after the lease was taken, and the drain begun
			return hold
		}
		return percolatortest.Pass
	})
	col, err := collector(t, c, admin.CollectorConfig{Lease: time.Second}).Collect(ctx)
	fixture.Must(t, err)
	if col.Versions != 2 || len(hold.Requests()) != 2 {
		t.Errorf("collected %+v, with %d attempts lost", col, len(hold.Requests()))
	}
}
