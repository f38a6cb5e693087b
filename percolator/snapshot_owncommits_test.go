package percolator_test

import (
	"testing"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// ownGuard is a client that commits a transaction which sets rows to "new", of which the requests
// that match are held.
func ownGuard(t *testing.T, held func(percolatortest.Request) bool, before func(*guard), rows ...string) (g *guard, hold *percolatortest.Hold, committed chan error) {
	env := fixture.NewEnv(t, percolatortest.Configure(longTTL))
	g = &guard{T: t, env: env, ctx: fixture.Context(t), c: env.Client}
	for _, row := range rows {
		fixture.Put(t, g.ctx, g.c, row, "c", "old")
	}
	tx := fixture.MustBegin(t, g.ctx, g.c)
	for _, row := range rows {
		fixture.Must(t, tx.Set(fixture.Cell(row, "c"), []byte("new")))
	}
	before(g)
	hold = percolatortest.NewHold()
	env.FaultsOf(g.c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if held(r) {
			return hold
		}
		return percolatortest.Pass
	})
	committed = make(chan error, 1)
	go func() { committed <- fixture.ErrOf(tx.Commit(g.ctx)) }()
	hold.Wait(t, 1)
	return g, hold, committed
}

// readWhileHeld reads a row that the transaction has locked, lets its commit go on when the reader
// waits, and returns what was read.
func (g *guard) readWhileHeld(row string, hold *percolatortest.Hold) string {
	g.Helper()
	s := g.snapshot()
	got := make(chan string, 1)
	go func() {
		v, err := s.Get(g.ctx, fixture.Cell(row, "c"))
		if err != nil {
			g.Error(err)
		}
		got <- string(v)
	}()
	fixture.Eventually(g, "the reader waits", func() bool { return g.c.Engine().Locks.WaitingForOwn() == 1 })
	hold.Release()
	return <-got
}

// A reader that meets a lock of its own client's waits for the commit in memory, and sees what has
// become of it: it sends one read, however long the commit takes.
func TestReaderWaitsForTheOwnClientsCommit(t *testing.T) {
	t.Parallel()
	g, hold, committed := ownGuard(t, fixture.IsCommit, func(*guard) {}, "a", "b")
	reads := g.c.Stats().Requests["ReadRows"]
	if v := g.readWhileHeld("b", hold); v != "new" { // it had its commit timestamp before the reader began
		t.Errorf("read %q", v)
	}
	fixture.Must(t, <-committed)
	if n := g.c.Stats().Requests["ReadRows"] - reads; n != 1 {
		t.Errorf("%d reads were sent", n)
	}
	fixture.WantNow(t, g.ctx, g.c, fixture.Cell("b", "c"), "new")
	if n := g.c.Engine().Locks.OwnCommits(); n != 0 {
		fixture.Must(t, g.c.Flush(g.ctx))
		fixture.Eventually(t, "no commit is known when all is over", func() bool { return g.c.Engine().Locks.OwnCommits() == 0 })
	}
}

// What was waited for may be rolled back.
func TestReaderWaitsForTheOwnClientsConflict(t *testing.T) {
	t.Parallel()
	onB := func(r percolatortest.Request) bool {
		return r.Method == percolatortest.CheckAndMutateRow && r.Row == "b"
	}
	g, hold, committed := ownGuard(t, onB, func(g *guard) { fixture.Put(t, g.ctx, g.c, "b", "c", "other") }, "a", "b")
	fixture.Eventually(t, "a is locked", func() bool { return locksOf(t, g.c, "t", "a") == 1 })
	if v := g.readWhileHeld("a", hold); v != "old" {
		t.Errorf("read %q of a transaction that was rolled back", v)
	}
	fixture.WantErr(t, <-committed, percolator.ErrConflict)
	if n := g.c.Engine().Locks.OwnCommits(); n != 0 {
		t.Errorf("%d commits are still known", n)
	}
}

// A reader does not wait for the clean-up of what was rolled back: a row of it may have no server.
func TestReaderDoesNotWaitForCleanUp(t *testing.T) {
	t.Parallel()
	onX := func(r percolatortest.Request) bool {
		return r.Method == percolatortest.CheckAndMutateRow && r.Row == "x"
	}
	g, conflict, committed := ownGuard(t, onX, func(g *guard) { fixture.Put(t, g.ctx, g.env.NewClient(), "x", "c", "newer") }, "a", "b", "x")
	fixture.Eventually(t, "a and b are locked", func() bool { return locksOf(t, g.c, "t", "a")+locksOf(t, g.c, "t", "b") == 2 })
	erasure := percolatortest.NewHold()
	g.env.FaultsOf(g.c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return erasure
		}
		return percolatortest.Pass
	})
	if v := g.readWhileHeld("a", conflict); v != "old" {
		t.Errorf("read %q of a transaction that was rolled back", v)
	}
	erasure.Release()
	fixture.WantErr(t, <-committed, percolator.ErrConflict)
}

// When the commit was applied and only its answer is late, the reader waits for a moment, and then
// learns from the store what has become of it.
func TestReaderDoesNotWaitForALateAnswer(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testReaderDoesNotWaitForALateAnswer)
}

func testReaderDoesNotWaitForALateAnswer(t *testing.T) {
	env := fixture.NewEnv(t, percolatortest.Configure(longTTL))
	ctx, c := fixture.Context(t), env.Client
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("new")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("new")))
	hold := percolatortest.NewHold()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) && r.Row == "a" {
			return hold.Answer()
		}
		return percolatortest.Pass
	})
	committed := make(chan error, 1)
	go func() { committed <- fixture.ErrOf(tx.Commit(ctx)) }()
	hold.Wait(t, 1)
	fixture.WantNow(t, ctx, c, fixture.Cell("b", "c"), "new")
	hold.Release()
	fixture.Must(t, <-committed)
}

// locksOf counts the locks that stand in a row.
func locksOf(t testing.TB, c *percolator.Client, table, row string) (n int) {
	t.Helper()
	rv, err := c.Engine().Store.ReadVersions(t.Context(), table, row, store.Newest(nil, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range rv {
		n += len(v.Locks)
	}
	return n
}
