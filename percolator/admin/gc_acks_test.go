package admin_test

import (
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// An acknowledgment goes with its cell even where a writer of the cell died in between: its lock
// keeps the acknowledgment in one cycle, and its marker is no reason to keep it in the next.
func TestAcknowledgmentGoesAfterARollBack(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, env *percolatortest.Env) {
		ctx, c := fixture.Context(t), env.Client
		fixture.Put(t, ctx, c, "r", "seen", "v")
		fixture.Acknowledge(t, ctx, c, fixture.Cell("r", "seen"), "O")
		fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("r", "seen")) }))
		fixture.Acknowledge(t, ctx, c, fixture.Cell("r", "seen"), "O")
		fixture.Must(t, c.Flush(ctx))
		env.Clock.Advance(fixture.PastRetention)

		dying := env.NewClient(fixture.ShortRetention)
		tx := fixture.MustBegin(t, ctx, dying)
		fixture.Must(t, tx.Set(fixture.Cell("r", "seen"), []byte("never")))
		env.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
			if fixture.IsCommit(r) {
				return percolatortest.Crash
			}
			return percolatortest.Pass
		})
		if _, err := tx.Commit(ctx); err == nil {
			t.Fatal("the writer did not die")
		}
		fixture.Collect(t, ctx, c)
		fixture.WantCells(t, ctx, env, "locked", 1, 1, 1, 0) // the acknowledgment stays
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, c)
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, c)
		fixture.WantCells(t, ctx, env, "collected", 0, 0, 0, 0)
		env.Audit(t, fixture.Collected)
	})
}
