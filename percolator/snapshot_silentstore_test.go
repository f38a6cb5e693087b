package percolator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A read whose context ends because the store is silent does not blame a lock that it has resolved
// before: whoever goes by ErrLocked takes a slow store for a cell that is locked.
func TestSilentStoreIsNotALock(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx, env := fixture.Context(t), fixture.NewEnv(t)
		fixture.Put(t, ctx, env.Client, "b", "c", "v")
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { // a record that changes nothing
			return fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("b", "c")))
		}))
		fixture.Must(t, env.Client.Flush(ctx))
		fixture.Strand(t, ctx, env, fixture.Cell("p", "c"), fixture.Cell("a", "c"))
		c := env.NewClient()
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		resolved := false
		env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
			switch {
			case r.Method == percolatortest.CheckAndMutateRow:
				resolved = true
			case resolved && r.Method == percolatortest.ReadRows && r.Table == "t":
				return percolatortest.NewHold()
			}
			return percolatortest.Pass
		})
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err = s.GetMulti(short, fixture.Cell("a", "c"), fixture.Cell("b", "c")); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, percolator.ErrLocked) || !resolved {
			t.Errorf("no lock is in the way (%v): %v", resolved, err)
		}
	})
}
