package settle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
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
				return &settle.Item{JournalEntry: rows[0].Entries[0], Session: session, Read: time.Now()}
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
		results []settle.Result
		err     error
	}
	looked := make(chan result, 1)
	it := w.item(session)
	go func() {
		results, err := c.Engine().Looker.Look(w.ctx, []settle.Item{*it})
		looked <- result{results, err}
	}()
	first.Wait(t, 1)
	prewrites.Release()
	fixture.Must(t, <-ended)
	first.Release()
	if r := <-looked; r.err != nil || r.results[0].Settled {
		t.Errorf("%+v, %v", r.results, r.err)
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
		results, err := c.Engine().Looker.Look(w.ctx, []settle.Item{*w.item(session)})
		if err != nil || results[0].Settled || found.of("r") != n {
			t.Errorf("look %d: %+v, %d notifications found, %v", n+1, results, found.of("r"), err)
		}
		if n := fixture.CellsOf(t, w.ctx, w.Env, "t", "lock"); n != 0 {
			t.Errorf("%d locks are left", n)
		}
	}
}

// A notification of a column that the adopter does not know to be observed yet is not passed by:
// the stored schema says what is observed (J4).
func TestAColumnThatHasJustBecomeObserved(t *testing.T) {
	t.Parallel()
	schema := func(observed ...string) *percolator.Schema {
		return &percolator.Schema{
			Tables: []percolator.Table{{Name: "t", Observed: observed}},
			Timing: percolator.Timing{RequestLifetime: lifetime, MetaMaxAge: time.Minute},
		}
	}
	w := &world{TB: t, Env: percolatortest.New(t, schema("seen")), ctx: fixture.Context(t)}
	w.Clock.Stop()
	_, a, _ := w.adopter()
	fixture.Must(t, percolator.CreateSchema(w.ctx, w.Project, w.Instance, schema("seen", "late"), w.Options()...))
	c, session := w.client()
	tx := fixture.MustBegin(t, w.ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("r", "late"), []byte("1")))
	_, err := tx.Commit(w.ctx)
	fixture.Must(t, errors.Join(err, c.Flush(w.ctx)))
	w.end(session)
	for range 5 {
		fixture.Must(t, a.RunOnce(w.ctx))
	}
	if w.settled(session) {
		t.Error("the low position has passed an entry whose notification nobody has seen")
	}
}

// An announcement whose entry may have been collected before its notify cells could be written is
// refused (J2, I16): nobody would find them.
func TestAnAnnouncementThatTookTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.client()
	rows := []model.JournalName{{Table: "t", Key: "r", Weak: true}}
	_, err := c.Engine().Commits.Announce(w.ctx, rows)
	fixture.Must(t, err)
	w.FaultsOf(c).HandleJournal(func(percolatortest.Request) percolatortest.Action {
		w.Clock.Advance(2 * c.Engine().Config.Retention) // as a machine that is suspended: its own clock stands still
		return percolatortest.Pass
	})
	if a, err := c.Engine().Commits.Announce(w.ctx, rows); !errors.Is(err, model.ErrSnapshotTooOld) {
		t.Errorf("announced %+v: %v", a, err)
	}
}

// A weak notification of a transaction that was rolled back is dealt with before its entry is
// settled (J4).
func TestAnOwnRollBackAfterAWeakNotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, session := w.client()
	found := w.finds(c)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Sets("notify") {
			cancel() // the caller gives up
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, w.ctx, c)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("r", "plain"), []byte("1")), tx.Notify(fixture.Cell("n", "poke"))))
	if _, err := tx.Commit(ctx); err == nil {
		t.Fatal("it committed")
	}
	fixture.Must(t, c.Flush(w.ctx))
	notified, err := c.Engine().Reads.Notified(w.ctx, fixture.Cell("n", "poke"))
	fixture.Must(t, err)
	if !notified {
		t.Fatal("there is no notification")
	}
	if low := c.Engine().Journal.Own.Unsettled(); low.Rows == 0 && found.of("n") == 0 {
		t.Errorf("the entry of session %s is settled, and nobody knows of the notification", session)
	}
}

// An entry is not settled by a look that could not read one of its rows (J4).
func TestARowThatCannotBeReadSettlesNothing(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testARowThatCannotBeReadSettlesNothing)
}

func testARowThatCannotBeReadSettlesNothing(t *testing.T) {
	w := newWorld(t)
	dying, session := w.client()
	w.die(dying, session, "r")
	c, _ := w.client()
	hold := percolatortest.NewHold()
	t.Cleanup(hold.Drop)
	it := w.item(session)
	it.Primary = model.Cell{} // there is nothing to decide
	it.Read = it.Read.Add(-time.Hour)
	w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && r.Table == "t" {
			return hold
		}
		return percolatortest.Pass
	})
	if results, err := c.Engine().Looker.Look(w.ctx, []settle.Item{*it}); err == nil || results[0].Settled {
		t.Errorf("%+v, %v", results, err)
	}
}

// committed is the entry of a transaction that wrote the observed cell of a row, and has left its
// notification.
func (w *world) committed(c *percolator.Client, row string) *settle.Item {
	w.Helper()
	tx := fixture.MustBegin(w, w.ctx, c)
	fixture.Must(w, tx.Set(fixture.Cell(row, "seen"), []byte("1")))
	ts, err := tx.Commit(w.ctx)
	fixture.Must(w, err)
	return &settle.Item{JournalEntry: model.JournalEntry{StartTS: tx.StartTimestamp(), Primary: fixture.Cell(row, "seen"), Rows: []model.JournalName{{Table: "t", Key: row, Observed: true}}},
		CommitTS: ts, Read: time.Now()}
}

// A look reads the notifications up to the newest that its entries may have written: an observer
// that is parked for a later one stays parked (I19).
func TestALookForgetsNothingThatIsParkedForLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.client()
	earlier := w.committed(c, "r")
	fixture.Must(t, c.Engine().Commits.ClearNotification(w.ctx, fixture.Cell("r", "seen"), earlier.CommitTS))
	later := w.committed(c, "r")
	parked := model.ObserverState{Cell: fixture.Cell("r", "seen"), Observer: "o", Through: later.CommitTS}
	w.plant("r", layout.StateColumn(parked), parked.Through, layout.EncodeObserverState(parked))
	var forgotten []model.ObserverState
	c.Engine().Looker.Forget = func(_ context.Context, states ...model.ObserverState) error {
		forgotten = append(forgotten, states...)
		return nil
	}
	for _, it := range []*settle.Item{earlier, later} {
		if _, err := c.Engine().Looker.Look(w.ctx, []settle.Item{*it}); err != nil || len(forgotten) != 0 {
			t.Errorf("a look at %d forgets %+v, %v", it.CommitTS, forgotten, err)
		}
	}
	mut := store.NewMutation(1)
	mut.EraseColumn(layout.NotifyFamily, "seen")
	fixture.Must(t, c.Engine().Store.Mutate(w.ctx, "t", "r", mut))
	if _, err := c.Engine().Looker.Look(w.ctx, []settle.Item{*later}); err != nil || len(forgotten) != 1 {
		t.Errorf("with nothing to do it forgets %+v, %v", forgotten, err)
	}
}

func (w *world) plant(row, column string, ts tso.Timestamp, value []byte) {
	w.Helper()
	layertest.Plant(w, w.Client.Engine().Store, row, layout.NotifyFamily, column, ts, value)
}

// Of a column a look reads the newest notifications. Where there are as many, those of an earlier
// transaction may be beneath them, so it is not settled (J4).
func TestALookAtManyNotifications(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.client()
	w.finds(c)
	earlier := w.committed(c, "r")
	for range 100 {
		ts, err := c.Engine().Clock.Next(w.ctx)
		fixture.Must(t, err)
		w.plant("r", "seen", ts, nil)
	}
	later := w.committed(c, "r")
	results, err := c.Engine().Looker.Look(w.ctx, []settle.Item{*earlier, *later})
	if err != nil || results[0].Settled || results[1].Settled {
		t.Errorf("%+v, %v", results, err)
	}
}

// Entries that name a table into which an import is unfinished are for later (I28): their
// notifications are not looked at.
func TestALookLeavesTablesWithAnImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.client()
	found := w.finds(c)
	it := w.committed(c, "r")
	mut := store.NewMutation(1)
	mut.Put(layout.MetaFamily, "import:t", store.MetaTimestamp, meta.Import{ID: "i", Phase: meta.ImportLoad}.Encode())
	fixture.Must(t, c.Engine().Store.Mutate(w.ctx, model.MetaTable, meta.RowKey, mut))
	_, err := c.Engine().Meta.Refresh(w.ctx)
	fixture.Must(t, err)
	results, err := c.Engine().Looker.Look(w.ctx, []settle.Item{*it})
	if err != nil || results[0].Settled || found.of("r") != 0 {
		t.Errorf("%+v, %d found, %v", results, found.of("r"), err)
	}
}
