package percolator_test

import (
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Notified sees a cell's notification, not its neighbour's; questions that come together travel
// together.
func TestNotifiedSeesItsCellAlone(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	g := &guard{T: t, env: env, ctx: fixture.Context(t), c: env.Client}
	fixture.Put(t, g.ctx, g.c, "observed", "seen", "v", "silent", "c", "v")
	fixture.Must(t, fixture.Update(g.ctx, g.c, func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell("weak", "poke")) }))
	fixture.Must(t, g.c.Flush(g.ctx))
	for _, c := range []struct {
		cell percolator.Cell
		want bool
	}{{fixture.Cell("observed", "seen"), true}, {fixture.Cell("observed", "poke"), false}, {fixture.Cell("silent", "c"), false}, {fixture.Cell("weak", "poke"), true}, {fixture.Cell("none", "seen"), false}} {
		if got, err := g.c.Engine().Reads.Notified(g.ctx, c.cell); err != nil || got != c.want {
			t.Errorf("%s: notified %v, %v", c.cell, got, err)
		}
	}
	_, err := g.c.Engine().Reads.Notified(g.ctx, percolator.Cell{Table: "none", Row: "r", Column: "c"})
	fixture.WantErr(t, err, percolator.ErrSchemaMismatch)

	g.count()
	hold := percolatortest.NewHold()
	env.FaultsOf(g.c).Handle(func(percolatortest.Request) percolatortest.Action { return hold })
	var asking sync.WaitGroup
	for i := range 10 {
		asking.Go(func() {
			if _, err := g.c.Engine().Reads.Notified(g.ctx, fixture.Cell(fixture.Key(i), "seen")); err != nil {
				t.Error(err)
			}
		})
		if i < 2 {
			hold.Wait(t, i+1)
		}
	}
	fixture.Eventually(t, "the others wait", func() bool { return g.c.Engine().Reads.Waiting() == 8 })
	hold.Release()
	asking.Wait()
	g.wantCost(cost{"ReadRows 1": 2, "ReadRows 8": 1})
}
