package admin_test

import (
	"github.com/gopercolator/percolator/percolator/model"

	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// setJournal stores the schema of a collector's environment with or without the journal.
func setJournal(t *testing.T, ctx context.Context, env *percolatortest.Env, without bool) {
	t.Helper()
	s := *env.Client.Schema()
	s.DisableJournal = without
	fixture.Apply(t, ctx, env, &s)
}

// wantJournal asserts how many rows with entries, headers, and cells with parked observers the
// journal holds.
func wantJournal(t *testing.T, ctx context.Context, env *percolatortest.Env, what string, entries, headers, parked int) {
	t.Helper()
	rows, found := streamsLeft(t, ctx, env)
	listed := 0
	fixture.Must(t, env.Store().Open("percolator_journal").ReadRows(ctx, bigtable.PrefixRange("\x40"), func(bigtable.Row) bool {
		listed++
		return true
	}))
	if rows != entries || found != headers || listed != parked {
		t.Errorf("%s: %d rows with entries, %d headers, and %d cells with parked observers; want %d, %d and %d", what, rows, found, listed, entries, headers, parked)
	}
}

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
	before, headers := streamsLeft(t, ctx, env)
	wantJournal(t, ctx, env, "at first", before, headers, 1)
	setJournal(t, ctx, env, true)
	sessions.End("session-2")

	dying := env.NewClient(fixture.ShortRetention, percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = sessions.Oracle(cfg.Oracle) }))
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
	if _, err := fixture.NewCollector(t, dying, admin.CollectorConfig{Lease: time.Second}).Collect(ctx); err == nil {
		t.Fatal("the collector did not die")
	}
	if left, _ := streamsLeft(t, ctx, env); left == 0 || left == before {
		t.Errorf("%d of %d rows are left by a collector that died among them", left, before)
	}
	env.Clock.Advance(2 * time.Second)
	by := env.NewClient(fixture.ShortRetention, percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = sessions.Oracle(cfg.Oracle) }))
	fixture.Collect(t, ctx, by)
	if left, kept := streamsLeft(t, ctx, env); left != 0 || kept == 0 || kept >= headers {
		t.Errorf("%d rows with entries and %d of %d headers are left, want those of the session that lasts", left, kept, headers)
	}
	_, kept := streamsLeft(t, ctx, env)
	wantJournal(t, ctx, env, "in the end", 0, kept, 0)

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
	rows, headers := streamsLeft(t, ctx, env)
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
	wantJournal(t, ctx, env, "turned on meanwhile", rows, headers, 0)
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, by) // by passes, as the journal is building
	wantJournal(t, ctx, env, "turned on", rows, headers, 0)
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
	_, err := fixture.NewCollector(t, dying, admin.CollectorConfig{Lease: time.Second, Progress: func(col admin.Collection) {
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
