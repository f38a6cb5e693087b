package settle_test

import (
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A look that has resolved locks, and has not come to an end with that, is followed by the next one
// soon: an adopter rests ever longer only after looks that led to nothing.
func TestLooksThatMakeProgressAreNotMadeEverMoreRarely(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLooksThatMakeProgressAreNotMadeEverMoreRarely)
}

func testLooksThatMakeProgressAreNotMadeEverMoreRarely(t *testing.T) {
	w := newWorld(t)
	dying, session := w.client()
	w.die(dying, session, "r")
	row, err := w.Store().Open("t").ReadRow(w.ctx, "r", bigtable.RowFilter(bigtable.FamilyFilter("lock")))
	fixture.Must(t, err)
	lock := row["lock"][0]
	_, a, _ := w.adopter()
	last := time.Now()
	for looks := 0; looks < 6; {
		time.Sleep(turnPause)
		fixture.Must(t, a.RunOnce(w.ctx))
		if rest := time.Since(last); rest > 3*time.Second {
			t.Fatalf("the adopter has rested for %v after %d looks, each of which has resolved a lock", rest, looks)
		}
		if fixture.CellsOf(t, w.ctx, w.Env, "t", "lock") == 0 {
			looks, last = looks+1, time.Now()
			fixture.Plant(t, w.ctx, w.Env, "t", "r", "lock", "seen", int64(lock.Timestamp), string(lock.Value)) // what looks had no time for
		}
	}
}

// The locks of one entry are resolved some at a time: those of a large transaction in few looks.
func TestLocksOfOneEntryAreResolvedSomeAtATime(t *testing.T) {
	t.Parallel()
	const most = 8
	w := newWorld(t)
	dying, session := w.client()
	var rows []string
	for i := range 5 * most {
		rows = append(rows, row(i))
	}
	w.die(dying, session, rows...)
	c, a, _ := w.adopter()
	hold := percolatortest.NewHold()
	w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.CheckAndMutateRow && r.Table == "t" {
			return hold
		}
		return percolatortest.Pass
	})
	turned := make(chan error, 1)
	go func() { turned <- a.RunOnce(w.ctx) }()
	if n := len(hold.Wait(t, most)); n != most {
		t.Errorf("%d at once, want %d", n, most)
	}
	hold.Release()
	fixture.Must(t, <-turned)
	if n := fixture.CellsOf(t, w.ctx, w.Env, "t", "lock"); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}
