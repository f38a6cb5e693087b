package settle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A look makes sure of the transaction's status before it reads rows (J5): looked at before its
// prewrites, a transaction would leave nothing to be seen, the low position would pass it, and then
// it would commit.
func TestALookDecidesBeforeItReadsRows(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testALookDecidesBeforeItReadsRows)
}

func testALookDecidesBeforeItReadsRows(t *testing.T) {
	w := newWorld(t)
	slow, session := w.client()
	hold := percolatortest.NewHold()
	w.FaultsOf(slow).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) {
			return hold
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, w.ctx, slow)
	fixture.Must(t, tx.Set(fixture.Cell("r", "seen"), []byte("1")))
	ended := make(chan error, 1)
	go func() { _, err := tx.Commit(w.ctx); ended <- err }()
	hold.Wait(t, 1)
	fixture.Eventually(t, "the entry", func() bool { return len(w.FaultsOf(slow).JournalRequests()) >= 2 && !w.settled(session) })
	w.end(session)
	_, a, _ := w.adopter()
	w.turns(a, "the low position passes it", func() bool { return w.settled(session) })
	hold.Release()
	if err := <-ended; err == nil {
		t.Error("a transaction below the low position has committed")
	}
	fixture.WantNow(t, w.ctx, w.Client, fixture.Cell("r", "seen"), "")
}

// A weak notification of a transaction that never committed is dispatched, and its entry settles no
// earlier than a request lifetime after it was first read.
func TestWeakNotificationOfARolledBackTransaction(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testWeakNotificationOfARolledBackTransaction)
}

func testWeakNotificationOfARolledBackTransaction(t *testing.T) {
	w := newWorld(t)
	dying, session := w.client()
	w.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, w.ctx, dying)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("r", "plain"), []byte("1")), tx.Notify(fixture.Cell("n", "poke"))))
	if _, err := tx.Commit(w.ctx); err == nil {
		t.Fatal("it committed")
	}
	w.end(session)
	c, a, found := w.adopter()
	started := time.Now()
	w.turns(a, "the notification is found", func() bool { return found.of("n") > 0 })
	now, err := c.Engine().Clock.Next(w.ctx)
	fixture.Must(t, err)
	fixture.Must(t, errors.Join(c.Engine().Commits.ClearNotification(w.ctx, fixture.Cell("n", "poke"), now), c.Flush(w.ctx)))
	w.turns(a, "it is settled", func() bool { return w.settled(session) })
	if took := time.Since(started); took < lifetime {
		t.Errorf("settled after %v, and a request of it may be under way for %v", took, lifetime)
	}
	fixture.WantNow(t, w.ctx, w.Client, fixture.Cell("r", "plain"), "")
}

// The notify cells of an announcement come after its entry (J2): an adopter that finds none waits
// for them.
func TestAnnouncementIsAwaited(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAnnouncementIsAwaited)
}

func testAnnouncementIsAwaited(t *testing.T) {
	w := newWorld(t)
	slow, session := w.client()
	hold := percolatortest.NewHold()
	w.FaultsOf(slow).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return hold
		}
		return percolatortest.Pass
	})
	go func() {
		_, _ = slow.Update(w.ctx, func(_ context.Context, tx *txn) error { return tx.Notify(fixture.Cell("n", "poke")) })
	}()
	hold.Wait(t, 1)
	w.end(session)
	_, a, found := w.adopter()
	fixture.Must(t, a.RunOnce(w.ctx))
	if found.of("n") > 0 || w.settled(session) {
		t.Fatal("it is settled before it was written")
	}
	hold.Release()
	w.turns(a, "the notification is found", func() bool { return found.of("n") > 0 })
}

// Two adopters at once cost work and nothing else.
func TestTwoAdoptersAtOnce(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testTwoAdoptersAtOnce)
}

func testTwoAdoptersAtOnce(t *testing.T) {
	w := newWorld(t)
	dying, session := w.client()
	var rows []string
	for i := range 30 {
		rows = append(rows, row(i))
	}
	w.die(dying, session, rows...)
	_, a, foundA := w.adopter()
	_, b, foundB := w.adopter()
	var both sync.WaitGroup
	for _, x := range []*settle.Adopter{a, b} {
		both.Go(func() {
			for range 5 {
				if err := x.RunOnce(w.ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	for _, r := range rows {
		fixture.WantNow(t, w.ctx, w.Client, fixture.Cell(r, "seen"), "1")
	}
	w.turns(a, "every notification is found", func() bool {
		for _, r := range rows {
			if foundA.of(r)+foundB.of(r) == 0 {
				return false
			}
		}
		return true
	})
	if w.settled(session) {
		t.Error("notifications that nobody has dealt with count as settled")
	}
}

// An entry whose primary's table is gone settles like one whose record was collected, and keeps no
// other.
func TestEntryOfATableThatIsGone(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEntryOfATableThatIsGone)
}

func testEntryOfATableThatIsGone(t *testing.T) {
	w := newWorld(t)
	dying, session := w.client()
	gone := model.Cell{Table: "gone", Row: "r", Column: "c"}
	w.appendEntries(dying,
		&model.JournalEntry{Primary: gone, Rows: []model.JournalName{{Table: "gone", Key: "r"}, {Table: "t", Key: "r", Observed: true}}},
		&model.JournalEntry{Primary: fixture.Cell("s", "seen"), Rows: []model.JournalName{{Table: "t", Key: "s", Observed: true}}})
	w.end(session)
	_, a, _ := w.adopter()
	started := time.Now()
	w.turns(a, "it is settled", func() bool { return w.settled(session) })
	if took := time.Since(started); took < lifetime {
		t.Errorf("settled after %v", took)
	}
}

// What is settled behind an unsettled row is not read again, nor are its rows of the table.
func TestSettledRowsAreReadOnce(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSettledRowsAreReadOnce)
}

func testSettledRowsAreReadOnce(t *testing.T) {
	const settledRows = 200
	w := newWorld(t)
	dying, session := w.client()
	w.die(dying, session, "stubborn") // nobody deals with its notification
	// They are appended to the same client's streams: it goes on as one that lost its session.
	second, again := w.client()
	for i := range settledRows {
		fixture.Must(t, fixture.ErrOf(second.Update(w.ctx, func(_ context.Context, tx *txn) error {
			if i == 0 {
				return tx.Notify(fixture.Cell("stubborn", "poke"))
			}
			return tx.Set(fixture.Cell(row(i), "plain"), []byte("1"))
		})))
	}
	w.end(again)
	c, a, found := w.adopter()
	w.turns(a, "everything was read", func() bool { return found.of("stubborn") > 1 })
	first := w.rowsRead(c)
	w.FaultsOf(c).Forget()
	looks := found.of("stubborn")
	w.turns(a, "more looks", func() bool { return found.of("stubborn") >= looks+2 })
	if n := w.rowsRead(c); n > 10 {
		t.Errorf("%d rows were read again, after %d", n, first)
	}
}

// An adopter that dies at any of its requests leaves the work to the next one.
func TestAdopterDiesAtEveryRequest(t *testing.T) {
	t.Parallel()
	const enough = 32 // more than an adoption takes
	for at := range int64(enough) {
		t.Run(fmt.Sprint(at+1), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				if crashed := adopterDiesAt(t, at+1); at < 8 && !crashed || at == enough-1 && crashed {
					t.Errorf("killed: %v", crashed)
				}
			})
		})
	}
}

func adopterDiesAt(t *testing.T, at int64) (crashed bool) {
	w := newWorld(t)
	dying, session := w.client()
	w.die(dying, session, "r")
	c, a, found := w.adopter()
	var sent atomic.Int64
	crash := func(r percolatortest.Request) percolatortest.Action {
		if r.Table != "percolator_meta" && sent.Add(1) == at {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	}
	w.FaultsOf(c).Handle(crash)
	w.FaultsOf(c).HandleJournal(crash)
	// deal lets an adopter work, and deals with what it finds as a worker does.
	deal := func(a *settle.Adopter, found *finds, until func() bool) {
		fixture.Eventually(t, "it is settled", func() bool {
			_ = a.RunOnce(w.ctx)
			time.Sleep(turnPause)
			if found.of("r") > 0 {
				now, err := w.Client.Engine().Clock.Next(w.ctx)
				fixture.Must(t, err)
				fixture.Must(t, w.Client.Engine().Commits.ClearNotification(w.ctx, fixture.Cell("r", "seen"), now))
				fixture.Must(t, w.Client.Flush(w.ctx))
			}
			return until()
		})
	}
	deal(a, found, func() bool { return w.FaultsOf(c).Crashed() || w.settled(session) })
	if crashed = w.FaultsOf(c).Crashed(); crashed {
		dealt := found.of("r") > 0
		_, a, found = w.adopter()
		deal(a, found, func() bool { return w.settled(session) })
		if !dealt && found.of("r") == 0 {
			t.Errorf("killed at request %d: nobody heard of the notification", at)
		}
	}
	fixture.WantNow(t, w.ctx, w.Client, fixture.Cell("r", "seen"), "1")
	return crashed
}

// Rows of a stream that name many rows are not looked at all at once: a look that fails for time is
// repeated for what it took, and for no more.
func TestAdoptersLooksAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dying, session := w.client()
	for n := range 5 {
		e := &model.JournalEntry{Primary: fixture.Cell(fmt.Sprint("p", n), "plain")}
		for i := range 600 {
			e.Rows = append(e.Rows, model.JournalName{Table: "t", Key: fmt.Sprintf("%d-%d", n, i)})
		}
		w.appendEntries(dying, e)
	}
	w.end(session)
	c, a, _ := w.adopter()
	w.Clock.Advance(time.Hour) // they are dead
	before := c.Engine().Store.Count.Looks.Load()
	w.turns(a, "they are settled", func() bool { return w.settled(session) })
	if n := c.Engine().Store.Count.Looks.Load() - before; n < 5 {
		t.Errorf("%d looks at 5 rows that name 600 each", n)
	}
}

func TestACorruptHeaderKeepsNoOtherStream(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testACorruptHeaderKeepsNoOtherStream)
}

func testACorruptHeaderKeepsNoOtherStream(t *testing.T) {
	w := newWorld(t)
	dying, session := w.client()
	w.die(dying, session, "lost")
	mut := bigtable.NewMutation()
	mut.Set("journal", "session", 0, []byte("no header"))
	fixture.Must(t, w.Store().Open(model.JournalTable).Apply(w.ctx, "\x01sixteen-bytes-id\x00\x00\x00\x00\x00\x00\x00\x00", mut))
	_, a, found := w.adopter()
	w.turns(a, "the notification is found", func() bool { return found.of("lost") > 0 })
}
