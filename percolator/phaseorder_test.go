package percolator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// heldCommit begins a commit to two rows and holds the first request for which is holds.
func heldCommit(t *testing.T, is func(percolatortest.Request) bool) (env *percolatortest.Env, hold *percolatortest.Hold, commit <-chan tso.Timestamp) {
	t.Helper()
	env, hold = newEnv(t), percolatortest.NewHold()
	ctx, done := testContext(t), make(chan tso.Timestamp, 1)
	env.FaultsOf(env.Client).Handle(atMost(1, is, hold))
	tx := mustBegin(t, ctx, env.Client)
	must(t, errors.Join(tx.Set(cell("a", "c"), []byte("v")), tx.Set(cell("b", "c"), []byte("v"))))
	go func() {
		ts, err := tx.Commit(ctx)
		if err != nil {
			t.Error(err)
		}
		done <- ts
	}()
	hold.Wait(t, 1)
	return env, hold, done
}

// As long as a row is not prewritten, the commit timestamp lies in the future: a snapshot taken
// meanwhile would not wait for the row's lock (I5).
func TestCommitTimestampFollowsEveryPrewrite(t *testing.T) {
	t.Parallel()
	env, hold, commit := heldCommit(t, func(r percolatortest.Request) bool { return isPrewrite(r) && r.Row == "b" })
	meanwhile, err := env.Oracle.Next(t.Context())
	must(t, err)
	hold.Release()
	if ts := <-commit; ts <= meanwhile {
		t.Errorf("committed at %d, and one of the rows was not locked at %d", ts, meanwhile)
	}
}

// Before the commit point no secondary is committed: the transaction may still be rolled back (I7).
func TestSecondariesFollowTheCommitPoint(t *testing.T) {
	t.Parallel()
	env, hold, commit := heldCommit(t, isCommit)
	if locks, records := cellsOf(t, t.Context(), env, "t", "lock"), cellsOf(t, t.Context(), env, "t", "write"); locks != 2 || records != 0 {
		t.Errorf("%d locks and %d records before the commit point, want 2 and none", locks, records)
	}
	hold.Release()
	<-commit
}

// Between the announcement of a safepoint and the first lock that is resolved, what was sent by
// those who did not know of it ends (I16).
func TestCollectionDrains(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := testContext(t), env.Client
	put(t, ctx, c, "r", "c", "v")
	env.Clock.Advance(afterwards)
	timing := c.Schema().Timing
	var announced, drained time.Time
	g := collector(t, c, admin.CollectorConfig{Progress: func(col admin.Collection) {
		switch {
		case col.Phase == admin.CollectionDrain && announced.IsZero():
			announced = time.Now()
		case col.Phase == admin.CollectionResolve && drained.IsZero():
			drained = time.Now()
		}
	}})
	_, err := g.Collect(ctx)
	must(t, err)
	if waited := drained.Sub(announced); announced.IsZero() || waited < timing.RequestLifetime+timing.MetaMaxAge {
		t.Errorf("resolved locks %v after the announcement; requests last %v, and knowledge %v", waited, timing.RequestLifetime, timing.MetaMaxAge)
	}
}
