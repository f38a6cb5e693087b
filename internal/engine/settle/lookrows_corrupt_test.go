package settle_test

import (
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A lock that cannot be decoded may be one of the transaction: its entry is not settled, and leads
// the collector there, who stops (J6).
func TestALookAtALockThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dying, session := w.client()
	w.die(dying, session, "r")
	it := w.item(session)
	fixture.Plant(t, w.ctx, w.Env, "t", "r", "lock", "seen", int64(layout.CellTime(it.StartTS)), "nonsense")
	c, _ := w.client()
	w.finds(c)
	results, err := c.Engine().Looker.Look(w.ctx, []settle.Item{*it})
	if err != nil || results[0].Settled || results[0].Unlocked {
		t.Errorf("%+v, %v", results, err)
	}
}
