package percolator_test

import (
	"errors"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// heldCommit begins a commit to two rows and holds the first request for which is holds.
func heldCommit(t *testing.T, is func(percolatortest.Request) bool) (env *percolatortest.Env, hold *percolatortest.Hold, commit <-chan tso.Timestamp) {
	t.Helper()
	env, hold = fixture.NewEnv(t), percolatortest.NewHold()
	ctx, done := fixture.Context(t), make(chan tso.Timestamp, 1)
	env.FaultsOf(env.Client).Handle(fixture.AtMost(1, is, hold))
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("a", "c"), []byte("v")), tx.Set(fixture.Cell("b", "c"), []byte("v"))))
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
	env, hold, commit := heldCommit(t, func(r percolatortest.Request) bool { return fixture.IsPrewrite(r) && r.Row == "b" })
	meanwhile, err := env.Oracle.Next(t.Context())
	fixture.Must(t, err)
	hold.Release()
	if ts := <-commit; ts <= meanwhile {
		t.Errorf("committed at %d, and one of the rows was not locked at %d", ts, meanwhile)
	}
}

// Before the commit point no secondary is committed: the transaction may still be rolled back (I7).
func TestSecondariesFollowTheCommitPoint(t *testing.T) {
	t.Parallel()
	env, hold, commit := heldCommit(t, fixture.IsCommit)
	if locks, records := fixture.CellsOf(t, t.Context(), env, "t", "lock"), fixture.CellsOf(t, t.Context(), env, "t", "write"); locks != 2 || records != 0 {
		t.Errorf("%d locks and %d records before the commit point, want 2 and none", locks, records)
	}
	hold.Release()
	<-commit
}
