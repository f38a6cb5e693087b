package gc_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A header stays as long as the session of its owner, and then goes with the last row.
func TestHeadersGoWithTheirSessions(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testHeadersGoWithTheirSessions)
}

func testHeadersGoWithTheirSessions(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	var sessions fixture.Registrar
	writer, by := sessions.Client(env), sessions.Client(env, fixture.ShortRetention)
	fixture.Put(t, ctx, writer, "r", "c", "v")
	fixture.Must(t, writer.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, by)
	if n := fixture.CountJournal(t, ctx, env); n != (fixture.JournalRows{Headers: 1}) {
		t.Errorf("while the session lasts: %+v, want the header alone", n)
	}
	fixture.Put(t, ctx, writer, "r", "c", "w") // in the same stream
	fixture.Must(t, writer.Flush(ctx))
	sessions.End("session-1")
	fixture.Collect(t, ctx, by)
	if n := fixture.CountJournal(t, ctx, env); n != (fixture.JournalRows{Entries: 1, Headers: 1}) {
		t.Errorf("with an entry above the safepoint: %+v, want both", n)
	}
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, by)
	if n := fixture.CountJournal(t, ctx, env); n != (fixture.JournalRows{}) {
		t.Errorf("after the session: %+v", n)
	}
}

// A stream whose header is gone is collected like any other. One that names no session stays, since
// its client may live.
func TestStreamWithoutAHeader(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testStreamWithoutAHeader)
}

func testStreamWithoutAHeader(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "1")
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, c)
	if n := fixture.CountJournal(t, ctx, env); n.Entries != 0 || n.Headers == 0 {
		t.Errorf("%+v are left", n)
	}
	fixture.LoseHeaders(t, ctx, env)
	fixture.Put(t, ctx, c, "r", "c", "2")
	fixture.Must(t, c.Flush(ctx))
	fixture.WantEntries(t, ctx, env, "without a header", 1)
	env.Audit(t)
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Versions != 2 {
		t.Errorf("collected %+v, want the first version and its record", col)
	}
	env.Audit(t, fixture.Collected)
}

// A notification older than the safepoint is one that the journal should have led to before: it is
// dispatched and counted, and its entry stays until it is dealt with.
func TestCollectionDispatchesWhatWasMissed(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionDispatchesWhatWasMissed)
}

func testCollectionDispatchesWhatWasMissed(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "seen", "v")
	fixture.Put(t, ctx, c, "r", "c", "v")
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	var told []percolator.Cell
	defer c.Engine().Dispatch.HandleNotify(func(n model.Notification) bool {
		told = append(told, n.Cell)
		return true
	})()
	if col := fixture.Collect(t, ctx, c); col.Dispatched != 1 || len(told) != 1 || told[0] != fixture.Cell("r", "seen") {
		t.Errorf("dispatched %v, collected %+v", told, col)
	}
	if fixture.CountJournal(t, ctx, env).Entries == 0 {
		t.Error("the entry of the notification has gone")
	}
	env.Audit(t, fixture.Collected)
	snap, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.Must(t, admin.New(c).ClearNotification(ctx, fixture.Cell("r", "seen"), snap.StartTimestamp()))
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Dispatched != 0 {
		t.Errorf("collected %+v", col)
	}
	fixture.WantEntries(t, ctx, env, "in the end", 0)
}

// A record that cannot be decoded does not stop a cycle; the entry that names its row stays until
// the record is repaired.
func TestCorruptRecordKeepsItsEntry(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCorruptRecordKeepsItsEntry)
}

func testCorruptRecordKeepsItsEntry(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	for _, v := range []string{"1", "2"} {
		brief := env.NewClient(fixture.ShortRetention) // of what it commits it tells nothing, so the rows are read
		fixture.Put(t, ctx, brief, "r", "c", v)
		fixture.Must(t, brief.Close())
		brief = env.NewClient(fixture.ShortRetention)
		fixture.Put(t, ctx, brief, "s", "c", v)
		fixture.Must(t, brief.Close())
	}
	fixture.Plant(t, ctx, env, "t", "r", "write", "x", 5000, "nonsense")
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, c); col.Corrupt != 1 || col.Versions != 4 {
		t.Errorf("collected %+v, want both cells, and one that is corrupt", col)
	}
	if fixture.CountJournal(t, ctx, env).Entries == 0 {
		t.Error("the entries of the row have gone")
	}
	mut := bigtable.NewMutation()
	mut.DeleteCellsInColumn("write", "x")
	fixture.Must(t, env.Store().Open("t").Apply(ctx, "r", mut))
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, c)
	env.Audit(t, fixture.Collected)
	fixture.WantEntries(t, ctx, env, "in the end", 0)
}

// A row of the journal that cannot be decoded stops the cycle before its watermark: what it names
// may hold a lock.
func TestCorruptRowOfTheJournalStopsCollection(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCorruptRowOfTheJournalStopsCollection)
}

func testCorruptRowOfTheJournalStopsCollection(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "1")
	fixture.Put(t, ctx, c, "r", "c", "2")
	fixture.Must(t, c.Flush(ctx))
	key := copyRow(t, ctx, env)
	fixture.Plant(t, ctx, env, "percolator_journal", key, "journal", "batch", 1000, "nonsense")
	env.Clock.Advance(fixture.PastRetention)
	fixture.WantErr(t, fixture.ErrOf(fixture.NewCollector(t, c, model.CollectorConfig{}).Collect(ctx)), percolator.ErrCorrupt)
	bounds, err := admin.New(c).CollectionBounds(ctx)
	if err != nil || bounds.Watermark != 0 {
		t.Errorf("%+v, %v", bounds, err)
	}
}

// What says that an observer is parked, beside no notification, goes with the next cycle that comes
// by the row (I19), and so does the row of the journal that lists it.
func TestCollectionErasesStrayStates(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionErasesStrayStates)
}

func testCollectionErasesStrayStates(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	at := fixture.Cell("r", "seen")
	ts := fixture.Put(t, ctx, c, "r", "seen", "v", "s", "seen", "v")
	for _, cell := range []percolator.Cell{at, fixture.Cell("s", "seen")} {
		fixture.Must(t, c.Engine().Commits.SetObserverStates(ctx, model.ObserverState{Cell: cell, Observer: "O", Through: ts, Attempts: 3, Observers: []string{"O"}}))
	}
	env.Audit(t)
	snap, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.Must(t, admin.New(c).ClearNotification(ctx, at, snap.StartTimestamp())) // and the worker dies
	fixture.Must(t, c.Flush(ctx))
	wantParked(t, ctx, env, 2, 3) // beside the notification of s
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, c)
	wantParked(t, ctx, env, 1, 2)
	env.Audit(t, fixture.Collected, skipNotifications)
}

// Transactions of some clients, some of which die at any request, weak notifications among them; a
// cycle of collection afterwards leaves what a snapshot reads, and nothing else.
func TestRandomHistoryIsCollected(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(t *testing.T, env *percolatortest.Env) { randomGarbage(t, env, seed) })
		})
	}
}

func randomGarbage(t *testing.T, env *percolatortest.Env, seed uint64) {
	ctx := fixture.Context(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	clients := 0
	var c *percolator.Client
	renew := func() {
		c = env.NewClient(fixture.ShortRetention)
		clients++
		if clients%2 == 0 {
			dies := 10 + rnd.IntN(60)
			n := 0
			env.FaultsOf(c).Handle(func(percolatortest.Request) percolatortest.Action {
				if n++; n == dies {
					return percolatortest.Crash
				}
				return percolatortest.Pass
			})
		}
	}
	renew()
	for range 150 {
		tx, err := c.Begin(ctx)
		if err == nil {
			for range 1 + rnd.IntN(3) {
				at := fixture.Cell(fmt.Sprint(rnd.IntN(8)), []string{"c", "d", "seen"}[rnd.IntN(3)])
				switch rnd.IntN(6) {
				case 0:
					err = tx.Delete(at)
				case 1:
					err = tx.Notify(fixture.Cell(at.Row, "poke"))
				default:
					err = tx.Set(at, []byte("v"))
				}
				fixture.Must(t, err)
			}
			_, _ = tx.Commit(ctx) // a conflict, the death of the client, or a success
		}
		if env.FaultsOf(c).Crashed() || rnd.IntN(20) == 0 {
			renew()
			env.Clock.Advance(fixture.LockTTL)
		}
	}
	env.Clock.Advance(fixture.PastRetention)
	by := env.NewClient(fixture.ShortRetention)
	_ = c.Flush(ctx)
	fixture.Collect(t, ctx, by)
	env.Audit(t, fixture.Collected)
	for i := range 8 { // what is notified: whatever else there was goes with the next cycle
		snap, err := by.Snapshot(ctx)
		fixture.Must(t, err)
		for _, column := range []string{"seen", "poke"} {
			fixture.Must(t, admin.New(by).ClearNotification(ctx, fixture.Cell(fmt.Sprint(i), column), snap.StartTimestamp()))
		}
	}
	fixture.Must(t, by.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, by)
	env.Audit(t, fixture.Collected, skipNotifications)
	if by.Schema().DisableJournal {
		return
	}
	fixture.WantEntries(t, ctx, env, "in the end", 0) // a living client may have written a header again
}

// A row that stands among those of a stream and has no number stops a cycle before the watermark is
// published, like one that cannot be decoded; once it has gone collection goes on.
func TestForeignRowAmongThoseOfAStream(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testForeignRowAmongThoseOfAStream)
}

func testForeignRowAmongThoseOfAStream(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "1")
	fixture.Put(t, ctx, c, "r", "c", "2")
	fixture.Must(t, c.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	table := env.Store().Open("percolator_journal")
	var foreign string
	var batch []byte
	fixture.Must(t, table.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for _, it := range r["journal"] {
			if it.Column == "journal:batch" {
				foreign, batch = r.Key()+"x", it.Value
			}
		}
		return true
	}))
	mut := bigtable.NewMutation()
	mut.Set("journal", "batch", 1000, batch)
	fixture.Must(t, table.Apply(ctx, foreign, mut))
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	col, err := fixture.NewCollector(t, c, model.CollectorConfig{}).Collect(limited)
	if fixture.WantErr(t, err, percolator.ErrCorrupt); col.Phase != model.CollectionResolve {
		t.Errorf("stopped at %+v", col)
	}
	mut = bigtable.NewMutation()
	mut.DeleteRow()
	fixture.Must(t, table.Apply(ctx, foreign, mut))
	fixture.Collect(t, ctx, c)
	fixture.WantCells(t, ctx, env, "collected", 1, 0, 1, 0)
}

// A row of the journal may begin with entries above the safepoint: another one in it is below, and
// leads to garbage (J6).
func TestCollectionReadsRowsOfMixedAge(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionReadsRowsOfMixedAge)
}

func testCollectionReadsRowsOfMixedAge(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "1")
	fixture.Put(t, ctx, c, "r", "c", "2")
	fixture.Must(t, c.Flush(ctx))
	fixture.EmptyJournal(t, ctx, env)
	old, err := c.Engine().Clock.Next(ctx)
	fixture.Must(t, err)
	env.Clock.Advance(fixture.Retention / 2)
	young, err := c.Engine().Clock.Next(ctx)
	fixture.Must(t, err)

	hold := percolatortest.NewHold()
	env.FaultsOf(c).HandleJournal(func(percolatortest.Request) percolatortest.Action { return hold })
	var all []*journal.Append
	for n := range 3 * journal.MaxStreams { // those that find no stream free share a row
		e := &model.JournalEntry{StartTS: young, Rows: []model.JournalName{{Table: "t", Key: "other"}}}
		if n == 2*journal.MaxStreams {
			e = &model.JournalEntry{StartTS: old, Rows: []model.JournalName{{Table: "t", Key: "r"}}}
		}
		a, err := c.Engine().Journal.Append(ctx, e)
		fixture.Must(t, err)
		all = append(all, a)
	}
	hold.Release()
	for _, a := range all {
		fixture.Must(t, a.Wait(ctx))
	}
	streams, err := journal.Streams(ctx, c.Engine().Store)
	fixture.Must(t, err)
	mixed := false
	for _, st := range streams {
		for rows, err := range journal.ReadStream(ctx, c.Engine().Store, st.ID, 1, 100) {
			fixture.Must(t, err)
			for _, row := range rows {
				at := slices.IndexFunc(row.Entries, func(e model.JournalEntry) bool { return e.StartTS == old })
				mixed = mixed || at > 0
			}
		}
	}
	if !mixed {
		t.Fatal("the entry below the safepoint has a row of its own")
	}

	env.Clock.Advance(fixture.Retention/2 + 5*time.Second)
	if col := fixture.Collect(t, ctx, c); col.Safepoint < old || col.Safepoint >= young || col.Versions != 2 {
		t.Errorf("collected %+v, want the first version and its record", col)
	}
}
