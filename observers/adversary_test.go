package observers_test

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A run elsewhere whose entry is older than the look, and that commits while the look is between the
// rows it writes and the row it ran for, does not escape WaitIdle.
func TestWaitIdleSeesARunThatCommitsDuringTheLook(t *testing.T) {
	t.Parallel()
	e := newEnv(t, percolator.Table{Name: "a", Observed: []string{"out"}}, table())
	out := percolator.Cell{Table: "a", Row: "r", Column: "out"}
	r := observers.NewRegistry()
	r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, _ observers.Change) error { return tx.Set(out, []byte("1")) })
	r.Observe("never", "a", "out", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	c, waiter := e.NewClient(), e.NewClient()
	prewrite, read := percolatortest.NewHold(), percolatortest.NewHold()
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) && r.Table == "a" {
			return prewrite
		}
		return percolatortest.Pass
	})
	e.FaultsOf(waiter).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && r.Table == "t" {
			return read
		}
		return percolatortest.Pass
	})
	e.start(c, r, observers.Config{Columns: []observers.Column{{Table: "t", Name: "in"}}, DisableCollection: true})
	e.set(e.client, "x", "in", "1")
	prewrite.Wait(t, 1)
	e.until("the entry", func() bool { return c.Engine().Journal.Own.Unsettled().Rows > 0 })

	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	idle := make(chan error, 1)
	go func() {
		idle <- observers.WaitIdle(ctx, waiter, func(left observers.Remaining) {
			t.Logf("%v", left)
			if left.Notifications > 0 {
				cancel()
			}
		})
	}()
	read.Wait(t, 1) // it has looked at the row that is about to be written
	prewrite.Release()
	e.until("the run commits, and its notification is written", func() bool {
		var pending int
		for _, err := range e.client.Engine().Reads.ScanPending(e.ctx, "a", percolator.All()) {
			if err != nil {
				t.Fatal(err)
			}
			pending++
		}
		return pending == 1 && len(e.pending()) == 0
	})
	read.Release()
	if err := <-idle; err == nil {
		t.Error("idle, and a notification is there that nobody has dealt with")
	}
}
