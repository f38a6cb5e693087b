package gc_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// A journal that is turned off for good is emptied by the cycles that follow, wherever they are
// broken off: its entries, what it lists as parked, and the headers of sessions that have ended.
// Turned on again it is built as if it had never been there, and clients go on in their streams.
func TestJournalThatIsOffIsEmptied(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testJournalThatIsOffIsEmptied)
}

func testJournalThatIsOffIsEmptied(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	var sessions fixture.Registrar
	writer, other := sessions.Client(env), sessions.Client(env)
	const rows = 600 // more than a page
	for i := range rows {
		fixture.Put(t, ctx, writer, fmt.Sprint(i%10), "c", fmt.Sprint(i))
	}
	ts := fixture.Put(t, ctx, other, "r", "seen", "v")
	fixture.Must(t, writer.Flush(ctx))
	at := model.ObserverState{Cell: fixture.Cell("r", "seen"), Observer: "O", Through: ts, Attempts: 3, Observers: []string{"O"}}
	fixture.Must(t, other.Engine().Commits.SetObserverStates(ctx, at))
	before := fixture.CountJournal(t, ctx, env)
	if before.Parked != 1 {
		t.Fatalf("at first: %+v", before)
	}
	setJournal(t, ctx, env, true)
	sessions.End("session-2")

	dying := sessions.Client(env, fixture.ShortRetention)
	erased := 0
	env.FaultsOf(dying).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			if erased++; erased == 2 {
				return percolatortest.Crash
			}
		}
		return percolatortest.Pass
	})
	env.Clock.Advance(fixture.PastRetention)
	if _, err := fixture.NewCollector(t, dying, model.CollectorConfig{Lease: time.Second}).Collect(ctx); err == nil {
		t.Fatal("the collector did not die")
	}
	if left := fixture.CountJournal(t, ctx, env); left.Entries == 0 || left.Entries == before.Entries {
		t.Errorf("a collector that died among %+v has left %+v", before, left)
	}
	env.Clock.Advance(2 * time.Second)
	by := sessions.Client(env, fixture.ShortRetention)
	fixture.Collect(t, ctx, by)
	left := fixture.CountJournal(t, ctx, env)
	if left != (fixture.JournalRows{Headers: left.Headers}) || left.Headers == 0 || left.Headers >= before.Headers {
		t.Errorf("of %+v there are %+v left, want the headers of the session that lasts", before, left)
	}

	setJournal(t, ctx, env, false)
	fixture.Sweep(t, ctx, by, model.SweepConfig{})
	fixture.Eventually(t, "the writer works by the journal", writer.Engine().Meta.ByJournal)
	fixture.Put(t, ctx, writer, "0", "c", "again")
	wantParked(t, ctx, env, 1, 2)
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, by)
	env.Audit(t, fixture.Collected)
}

// A journal that is turned on while a cycle is about to empty it is left as it is.
func TestJournalThatIsTurnedOnIsNotEmptied(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testJournalThatIsTurnedOnIsNotEmptied)
}

func testJournalThatIsTurnedOnIsNotEmptied(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	for i := range 5 {
		fixture.Put(t, ctx, env.Client, "r", "c", fmt.Sprint(i))
	}
	fixture.Must(t, env.Client.Flush(ctx))
	before := fixture.CountJournal(t, ctx, env)
	setJournal(t, ctx, env, true)
	by := env.NewClient(fixture.ShortRetention)
	var once sync.Once
	env.FaultsOf(by).HandleJournal(func(percolatortest.Request) percolatortest.Action {
		once.Do(func() { setJournal(t, ctx, env, false) })
		return percolatortest.Pass
	})
	env.Clock.Advance(fixture.PastRetention)
	if col := fixture.Collect(t, ctx, by); col.Phase != model.CollectionDone || col.Versions != 8 {
		t.Errorf("collected %+v", col)
	}
	if left := fixture.CountJournal(t, ctx, env); left != before {
		t.Errorf("turned on meanwhile: %+v, were %+v", left, before)
	}
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, by) // by passes, as the journal is building
	if left := fixture.CountJournal(t, ctx, env); left != before {
		t.Errorf("turned on: %+v, were %+v", left, before)
	}
}

// A cycle that began by the journal, and ends by passes as that was turned off meanwhile, leaves no
// share behind.
func TestSharesGoWithAJournalThatIsTurnedOff(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testSharesGoWithAJournalThatIsTurnedOff)
}

func testSharesGoWithAJournalThatIsTurnedOff(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	writeStreams(t, ctx, env, 3, 4)
	env.Clock.Advance(fixture.PastRetention)
	shares := func() (n int) {
		r, err := env.Store().Open("percolator_meta").ReadRow(ctx, "collector")
		fixture.Must(t, err)
		for _, it := range r["meta"] {
			if strings.HasPrefix(it.Column, "meta:share-") {
				n++
			}
		}
		return n
	}
	dying := env.NewClient(fixture.ShortRetention)
	_, err := fixture.NewCollector(t, dying, model.CollectorConfig{Lease: time.Second, Progress: func(col model.Collection) {
		if col.Phase == model.CollectionErase {
			env.FaultsOf(dying).Crash()
		}
	}}).Collect(ctx)
	if err == nil || shares() == 0 {
		t.Fatalf("the collector did not die among its %d shares: %v", shares(), err)
	}
	setJournal(t, ctx, env, true)
	env.Clock.Advance(2 * time.Second)
	if col := fixture.Collect(t, ctx, env.Client); col.Phase != model.CollectionDone || shares() != 0 {
		t.Errorf("%d shares are left by %+v", shares(), col)
	}
	fixture.WantCells(t, ctx, env, "in the end", 12, 0, 12, 0)
}

// The module grants gives no right to percolator_journal where the schema disables the journal.
// Collection goes on there, whether the table never was, or is left from before.
func TestCollectionWithoutAJournalNeedsNoRightToIt(t *testing.T) {
	for name, before := range map[string]bool{"never had one": false, "had one": true} {
		t.Run(name, func(t *testing.T) {
			percolatortest.Bubble(t, func(t *testing.T) {
				ctx := fixture.Context(t)
				user := emulator.Role("roles/bigtable.user")
				server, err := emulator.Start(emulator.InMemory(), emulator.Principals(map[string]emulator.Rights{
					"rich":   {Instance: emulator.Role("roles/bigtable.admin")},
					"worker": {Instance: []string{"bigtable.instances.ping"}, Tables: map[string][]string{model.MetaTable: user, "t": user}},
				}))
				fixture.Must(t, err)
				t.Cleanup(func() { _ = server.Close() })
				s := &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}}
				s.DisableJournal = !before
				fixture.Must(t, percolator.CreateSchema(ctx, "p", "i", s, server.ClientOptionsOf("rich")...))
				if before {
					s.DisableJournal = true
					fixture.Must(t, percolator.CreateSchema(ctx, "p", "i", s, server.ClientOptionsOf("rich")...))
				}
				oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
				fixture.Must(t, err)
				within, stop := context.WithCancel(ctx)
				var running sync.WaitGroup
				running.Go(func() { _ = oracle.Run(within) })
				t.Cleanup(func() { stop(); running.Wait() })
				c, err := percolator.NewClient(ctx, percolator.Config{Project: "p", Instance: "i", Oracle: oracle, Retention: time.Minute}, server.ClientOptionsOf("worker")...)
				fixture.Must(t, err)
				t.Cleanup(func() { _ = c.Close() })
				g := fixture.NewCollector(t, c, model.CollectorConfig{})
				for range 2 {
					if col, err := g.Collect(ctx); err != nil {
						t.Errorf("phase %q: %v", col.Phase, err)
					}
				}
			})
		})
	}
}
