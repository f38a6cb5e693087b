package settle_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Phase two that lands after another client has rolled the row forward, and after this one has
// erased the notification, writes it again: the entry is not settled while it stands (J4).
func TestANotificationThatPhaseTwoWritesAgainIsNotPassed(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]bool{"cleared here": false, "not found by a look": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testPhaseTwoWritesAgain(t, look)
		})
	}
}

func testPhaseTwoWritesAgain(t *testing.T, look bool) {
	w := newHangingWorld(t) // what is held back ends within its lifetime
	c, session := w.client()
	late := percolatortest.NewHold()
	w.FaultsOf(c).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.MutateRows && r.Table == "t" }, late))
	tx := fixture.MustBegin(t, w.ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("primary", "plain"), []byte("1")))
	fixture.Must(t, tx.Set(fixture.Cell("r", "seen"), []byte("1")))
	fixture.MustCommit(t, w.ctx, tx)
	late.Wait(t, 1)
	other, _ := w.client()
	fixture.WantNow(t, w.ctx, other, fixture.Cell("r", "seen"), "1") // rolled forward
	if n := fixture.CellsOf(t, w.ctx, w.Env, "t", "notify"); n != 1 {
		t.Fatalf("%d notifications, want 1", n)
	}
	now, err := c.Engine().Clock.Next(w.ctx)
	fixture.Must(t, err)
	clears := c
	if look {
		clears = other
	}
	fixture.Must(t, clears.Engine().Commits.ClearNotification(w.ctx, fixture.Cell("r", "seen"), now)) // as after a run
	fixture.Eventually(t, "it is erased", func() bool { return fixture.CellsOf(t, w.ctx, w.Env, "t", "notify") == 0 })
	if look {
		settle.NewOwner(c.Engine().Looker, c.Engine().Journal).RunOnce(w.ctx, time.Hour)
	}
	late.Release()
	fixture.Must(t, c.Flush(w.ctx))
	if n := fixture.CellsOf(t, w.ctx, w.Env, "t", "notify"); n != 1 {
		t.Skipf("%d notifications: phase two did not write it again", n)
	}
	fixture.Must(t, c.Close())
	if w.settled(session) {
		t.Error("the low position has passed the entry, and its notification stands: no adopter finds it, and collection counts it as missed")
	}
}
