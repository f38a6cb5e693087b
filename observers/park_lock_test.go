package observers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestNotParkedForALock: a cell that its observer cannot write because of the lock of a client that
// has died is tried until the lock is judged dead, however many attempts that takes.
func TestNotParkedForALock(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for _, column := range []string{"in", "w"} {
		eachFindingInBubble(t, column, func(t *testing.T, by finding) {
			e := newParkEnv(t, by)
			e.broken.Store(false)
			dying := e.NewClient()
			e.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
				if r.Sets("write") { // its commit
					return percolatortest.Crash
				}
				return percolatortest.Pass
			})
			if _, err := dying.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
				return errors.Join(tx.Set(cell("elsewhere", "out"), nil), tx.Set(cell("r", "out"), nil))
			}); err == nil {
				t.Fatal("the client did not die")
			}

			w, _ := e.start(e.client, e.registry, parkSoon)
			e.change(column, "v")
			e.until("more attempts than park a cell", func() bool { return e.bad.Load() > 3*int64(parkSoon.MaxAttempts) || len(e.parked()) > 0 })
			if p := e.parked(); len(p) > 0 {
				t.Errorf("parked: %+v", p)
			}
			e.Clock.Advance(time.Minute) // the lock is dead
			e.idle(w)
			if got := e.get("r", "out"); got == "" {
				t.Error("the observer has not run")
			}
		})
	}
}
