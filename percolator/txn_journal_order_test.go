package percolator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// lossesOfAppend is how often the entry of a transaction is lost before it arrives: what does not
// wait for it is far ahead by then.
const lossesOfAppend = 6

// orderOf runs f while appends are lost a few times, and returns what the client sent: "append" for
// the one that arrives, and what name says of its other requests.
func orderOf(t *testing.T, env *percolatortest.Env, name func(percolatortest.Request) string, f func()) (order []string) {
	t.Helper()
	var mu sync.Mutex
	lost := 0
	faults := env.FaultsOf(env.Client)
	faults.Handle(func(r percolatortest.Request) percolatortest.Action {
		mu.Lock()
		defer mu.Unlock()
		if n := name(r); n != "" {
			order = append(order, n)
		}
		return percolatortest.Pass
	})
	faults.HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		mu.Lock()
		defer mu.Unlock()
		if batches([]percolatortest.Request{r}) == 0 {
			return percolatortest.Pass
		}
		if lost++; lost <= lossesOfAppend {
			return percolatortest.LoseRequest
		}
		order = append(order, "append")
		return percolatortest.Pass
	})
	f()
	faults.Handle(nil)
	faults.HandleJournal(nil)
	mu.Lock()
	defer mu.Unlock()
	return order
}

// A transaction's entry is acknowledged before its commit timestamp is asked for, and so before its
// weak notifications and its commit request (J1).
func TestEntryPrecedesTheCommitTimestamp(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEntryPrecedesTheCommitTimestamp)
}

func testEntryPrecedesTheCommitTimestamp(t *testing.T) {
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("v")))
	fixture.Must(t, tx.Notify(fixture.Cell("c", "poke")))
	order := orderOf(t, env, func(r percolatortest.Request) string {
		switch {
		case r.Method == percolatortest.Oracle:
			return "timestamp"
		case r.Method == percolatortest.MutateRows && r.Sets("notify") && !r.Sets("write"):
			return "notify"
		case fixture.IsCommit(r):
			return "commit"
		}
		return ""
	}, func() { fixture.MustCommit(t, ctx, tx) })
	if got := strings.Join(order, " "); got != "append timestamp notify commit" {
		t.Error(got)
	}
}

// Rows that are only notified are in an entry whose timestamp is older than that of their
// notifications and newer than their deadline (J2).
func TestEntryPrecedesTheNotification(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testEntryPrecedesTheNotification)
}

func testEntryPrecedesTheNotification(t *testing.T) {
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Notify(fixture.Cell("c", "poke")))
	order := orderOf(t, env, func(r percolatortest.Request) string {
		switch {
		case r.Method == percolatortest.Oracle:
			return "timestamp"
		case r.Sets("notify"):
			return "notify"
		}
		return ""
	}, func() { fixture.MustCommit(t, ctx, tx) })
	if got := strings.Join(order, " "); got != "timestamp append timestamp notify" {
		t.Error(got)
	}
}

// A client whose transaction fails below the safepoint leaves its locks to the collector, which has
// resolved or will resolve them: a marker would come after the entry has gone (J8).
func TestOwnRollBackBelowTheSafepoint(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	c, other := env.Client, env.NewClient()
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("v")))
	hold := percolatortest.NewHold()
	faults := env.FaultsOf(c)
	faults.Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) && r.Row == "b" {
			return hold
		}
		return percolatortest.Pass
	})
	ended := make(chan error, 1)
	go func() { ended <- fixture.ErrOf(tx.Commit(ctx)) }()
	hold.Wait(t, 1)
	fixture.Eventually(t, "the primary's lock", func() bool { return fixture.CellsOf(t, ctx, env, "t", "lock") == 1 })
	now, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	refused, err := other.Engine().Meta.StoreSafepoint(ctx, now, now)
	if err != nil || refused {
		t.Fatal(refused, err)
	}
	if _, err := c.Engine().Meta.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	fixture.Put(t, ctx, other, "b", "c", "newer") // the prewrite of b fails
	faults.Forget()
	hold.Release()
	fixture.WantErr(t, <-ended, percolator.ErrConflict)
	if at := slices.IndexFunc(faults.Requests(), func(r percolatortest.Request) bool { return r.Sets("write") || r.Erases("lock") }); at >= 0 {
		t.Error(fmt.Sprint("it sent ", faults.Requests()[at]))
	}
}

// While the journal does not answer no commit point is passed: a commit fails within the lifetime
// of a request, definitely, names the table, and leaves nothing (J1).
func TestCommitsWithoutTheJournalAbort(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCommitsWithoutTheJournalAbort)
}

func testCommitsWithoutTheJournalAbort(t *testing.T) {
	env := percolatortest.New(t, &percolator.Schema{
		Tables: []percolator.Table{{Name: "t", Observed: []string{"seen"}}},
		Timing: percolator.Timing{RequestLifetime: time.Second},
	})
	ctx, dead := fixture.Context(t), env.NewClient()
	commits := 0
	env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			commits++
		}
		return percolatortest.Pass
	})
	env.FaultsOf(dead).HandleJournal(func(percolatortest.Request) percolatortest.Action { return percolatortest.LoseRequest })
	tx := fixture.MustBegin(t, ctx, dead)
	fixture.Must(t, tx.Set(fixture.Cell("a", "seen"), []byte("1")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("1")))
	_, err := tx.Commit(ctx)
	if err == nil || errors.Is(err, percolator.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "percolator_journal") {
		t.Errorf("a commit: %v", err)
	}
	if commits > 0 {
		t.Errorf("%d commit requests", commits)
	}
	env.FaultsOf(dead).HandleJournal(nil)
	fixture.Put(t, ctx, env.Client, "a", "seen", "2")
	fixture.Put(t, ctx, dead, "b", "c", "2")
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("b", "c"), "2")
	env.Audit(t)
}

// Parking is stored in the row only once the journal lists it: what is parked there and nowhere
// listed nobody would find.
func TestParkedIsListedFirst(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.NewClient()
	ts := fixture.Put(t, ctx, c, "r", "seen", "v")
	fixture.Must(t, c.Flush(ctx))
	env.FaultsOf(c).HandleJournal(func(percolatortest.Request) percolatortest.Action { return percolatortest.Crash })
	err := c.Engine().Commits.SetObserverStates(ctx, model.ObserverState{Cell: fixture.Cell("r", "seen"), Observer: "O", Through: ts, Observers: []string{"O"}})
	if err == nil || !env.FaultsOf(c).Crashed() {
		t.Fatalf("the client did not die: %v", err)
	}
	if listed, cells := fixture.CountJournal(t, ctx, env).Parked, fixture.CellsOf(t, ctx, env, "t", "notify"); listed != 0 || cells != 1 {
		t.Errorf("the journal lists %d parked observers, beside %d notify cells; want 0 and 1", listed, cells)
	}
}
