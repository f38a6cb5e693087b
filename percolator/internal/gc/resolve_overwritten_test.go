package gc_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Clients die right after they have committed, and others overwrite what their primaries hold: each
// record that decides a secondary becomes garbage. Three collectors divide a cycle, and die at
// random requests: the secondaries are rolled forward all the same (J12).
func TestSecondariesOutliveThePrimariesRecords(t *testing.T) {
	t.Parallel()
	for seed := range uint64(fixture.Of(12, 3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { testSecondariesOutlive(t, rand.New(rand.NewPCG(12, seed))) })
		})
	}
}

func testSecondariesOutlive(t *testing.T, r *rand.Rand) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	const pairs = 8
	row := func(kind string, i int) string { return fmt.Sprint(kind, i) }
	for i := range pairs {
		fixture.CrashAfter(t, env, fixture.IsCommit, row("primary", i), row("secondary", i))
		fixture.Put(t, ctx, env.Client, row("primary", i), "c", "new")
	}
	fixture.Must(t, env.Client.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	var collecting sync.WaitGroup
	for range 3 {
		c, last := env.NewClient(fixture.ShortRetention), r.IntN(300)
		numbered(env, c, func(seq int, _ string) percolatortest.Action {
			if seq == last {
				return percolatortest.Crash
			}
			return percolatortest.Pass
		})
		g := fixture.NewCollector(t, c, model.CollectorConfig{Lease: 5 * time.Second})
		collecting.Go(func() {
			for i := 0; i < 40 && !env.FaultsOf(c).Crashed(); i++ {
				if _, err := g.Collect(ctx); err != nil {
					time.Sleep(500 * time.Millisecond)
				}
			}
		})
	}
	collecting.Wait()
	env.Clock.Advance(fixture.PastRetention)
	last := env.NewClient(fixture.ShortRetention)
	fixture.Collect(t, ctx, last)
	for i := range pairs {
		fixture.WantNow(t, ctx, last, fixture.Cell(row("primary", i), "c"), "new")
		fixture.WantNow(t, ctx, last, fixture.Cell(row("secondary", i), "c"), "crashed")
	}
	fixture.WantEntries(t, ctx, env, "in the end", 0)
	env.Audit(t, fixture.Collected, skipNotifications)
}
