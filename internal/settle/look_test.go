package settle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/settle"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// item is the entry that a session has in the journal.
func (w *world) item(session string) *settle.Item {
	w.Helper()
	s := w.Client.Engine().Store
	streams, err := journal.Streams(w.ctx, s)
	fixture.Must(w, err)
	for _, st := range streams {
		for rows, err := range journal.ReadStream(w.ctx, s, st.ID, 1, 1) {
			fixture.Must(w, err)
			if st.Session == session && len(rows) > 0 {
				return &settle.Item{Entry: rows[0].Entries[0], Session: session, Read: time.Now()}
			}
		}
	}
	w.Fatal("the session has no entry")
	return nil
}

// A transaction that prewrites and commits while a look is under way is not settled by it (J4): the
// rows that were read before its commit show nothing of it.
func TestALookBesideACommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, session := w.client()
	prewrites := percolatortest.NewHold()
	w.FaultsOf(slow).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case fixture.IsPrewrite(r):
			return prewrites
		case r.Method == percolatortest.MutateRows:
			return percolatortest.Crash // no phase two
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, w.ctx, slow)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("p", "plain"), []byte("1")), tx.Set(fixture.Cell("r", "seen"), []byte("1"))))
	ended := make(chan error, 1)
	go func() { _, err := tx.Commit(w.ctx); ended <- err }()
	prewrites.Wait(t, 2)
	fixture.Eventually(t, "the entry", func() bool { return len(w.FaultsOf(slow).JournalRequests()) >= 2 && !w.settled(session) })

	c, _ := w.client()
	w.finds(c)
	first := percolatortest.NewHold()
	w.FaultsOf(c).Handle(fixture.AtMost(1, func(r percolatortest.Request) bool {
		return r.Method == percolatortest.ReadRows && r.Table == "t"
	}, first.Answer()))
	type result struct {
		settled []bool
		err     error
	}
	looked := make(chan result, 1)
	it := w.item(session)
	go func() {
		settled, err := c.Engine().Looker.Look(w.ctx, []*settle.Item{it})
		looked <- result{settled, err}
	}()
	first.Wait(t, 1)
	prewrites.Release()
	fixture.Must(t, <-ended)
	first.Release()
	if r := <-looked; r.err != nil || r.settled[0] {
		t.Errorf("settled: %v, %v", r.settled, r.err)
	}
}

// A look resolves the locks of a transaction that has committed, and leaves the entry unsettled: a
// later look finds what the roll forward has notified (J5).
func TestALookResolvesLocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dying, session := w.client()
	w.die(dying, session, "r")
	c, _ := w.client()
	found := w.finds(c)
	for n := range 2 {
		settled, err := c.Engine().Looker.Look(w.ctx, []*settle.Item{w.item(session)})
		if err != nil || settled[0] || found.of("r") != n {
			t.Errorf("look %d: settled %v, %d notifications found, %v", n+1, settled, found.of("r"), err)
		}
		if n := fixture.CellsOf(t, w.ctx, w.Env, "t", "lock"); n != 0 {
			t.Errorf("%d locks are left", n)
		}
	}
}
