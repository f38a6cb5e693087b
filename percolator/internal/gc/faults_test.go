package gc_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Collection killed at any request, to the journal or another table, or with the request or answer
// of a write lost, and started again by another client. Nothing that the next cycle should have
// found is left.
func TestCollectionInterrupted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]func(*percolator.Schema){"journal": nil, "passes": {fixture.ByPasses}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atEveryRequest(t, name, 20, func(t *testing.T, fault func(int, string) percolatortest.Action) {
				interruptCollection(t, change, fault)
			})
		})
	}
}

// interruptCollection runs a cycle whose requests meet a fault, and a second one where that did not
// come to its end.
func interruptCollection(t *testing.T, change []func(*percolator.Schema), fault func(int, string) percolatortest.Action) {
	env := fixture.NewCollectorEnv(t, change...)
	ctx := fixture.Context(t)
	writeGarbage(t, ctx, env)
	first := env.NewClient(fixture.ShortRetention)
	numbered(env, first, fault)
	col, err := fixture.NewCollector(t, first, model.CollectorConfig{Lease: 30 * time.Second}).Collect(ctx)
	if err == nil && col.Phase != model.CollectionDone {
		t.Errorf("ended without an error in %+v", col)
	}
	if err == nil {
		checkCollected(t, ctx, env, env.Client)
	} else {
		env.Clock.Advance(31 * time.Second) // its lease
		second := env.NewClient(fixture.ShortRetention)
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, second)
		fixture.WantNow(t, ctx, second, fixture.Cell("kept", "c"), "4")
		fixture.WantNow(t, ctx, second, fixture.Cell("forward too", "c"), "crashed")
		fixture.WantCells(t, ctx, env, "in the end", 4, 0, 4, 3) // by now nobody can read kept/c's older version
	}
	env.Audit(t, fixture.Collected, skipNotifications)
}

func checkCollected(t testing.TB, ctx context.Context, env *percolatortest.Env, c *percolator.Client) {
	t.Helper()
	for row, want := range map[string]string{"kept": "4", "gone": "", "rolled back": "", "back too": "", "forward": "crashed", "forward too": "crashed"} {
		fixture.WantNow(t, ctx, c, fixture.Cell(row, "c"), want)
	}
	// kept/c twice (what snapshots between GC watermark and now see), kept/seen, and the two that
	// were rolled forward.
	fixture.WantCells(t, ctx, env, "in the end", 5, 0, 5, 3)
}

// Two collectors divide a cycle. The one whose cycle it is, or the other, is killed at any request,
// or loses a write or its answer: all locks are resolved before the watermark is published, and
// nothing that the next cycle should have found is left.
func TestDividedCollectionInterrupted(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"leader", "helper"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			atEveryRequest(t, "divided "+victim, 8, func(t *testing.T, fault func(int, string) percolatortest.Action) {
				interruptDivided(t, victim == "leader", fault)
			})
		})
	}
}

func interruptDivided(t *testing.T, leads bool, fault func(int, string) percolatortest.Action) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	writeGarbage(t, ctx, env)
	leader, helper := env.NewClient(fixture.ShortRetention), env.NewClient(fixture.ShortRetention)
	victim := leader
	if !leads {
		victim = helper
		slowly(env, leader, func(percolatortest.Request) func() { return nil }) // leaves it something to do
	}
	numbered(env, victim, fault)
	collect := func(c *percolator.Client, offered, published func()) error {
		_, err := fixture.NewCollector(t, c, model.CollectorConfig{Lease: 30 * time.Second, Progress: func(col model.Collection) {
			switch col.Phase {
			case model.CollectionResolve:
				offered()
			case model.CollectionErase:
				published()
			}
		}}).Collect(ctx)
		return err
	}
	var once, erases sync.Once
	published := func() {
		erases.Do(func() {
			if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n > 0 {
				t.Errorf("the watermark is published beside %d locks", n)
			}
		})
	}
	var helping sync.WaitGroup
	var over atomic.Bool
	help := func() {
		for !over.Load() && !env.FaultsOf(helper).Crashed() && collect(helper, func() {}, func() {}) != nil {
			time.Sleep(5 * time.Millisecond) // the shares are not offered yet
		}
	}
	err := collect(leader, func() { once.Do(func() { helping.Go(help) }) }, published)
	over.Store(true)
	helping.Wait()
	if err != nil {
		env.Clock.Advance(31 * time.Second)
		fixture.Must(t, collect(env.NewClient(fixture.ShortRetention), func() {}, published))
	}
	env.Clock.Advance(fixture.PastRetention)
	second := env.NewClient(fixture.ShortRetention)
	fixture.Collect(t, ctx, second)
	fixture.WantNow(t, ctx, second, fixture.Cell("kept", "c"), "4")
	fixture.WantNow(t, ctx, second, fixture.Cell("forward too", "c"), "crashed")
	fixture.WantCells(t, ctx, env, "in the end", 4, 0, 4, 3)
	env.Audit(t, fixture.Collected, skipNotifications)
}
