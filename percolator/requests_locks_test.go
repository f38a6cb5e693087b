package percolator_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What a transaction sends when it meets others: their newer writes, and their locks in each state
// that these can be in.
func TestRequestsOfConflicts(t *testing.T) {
	// newer has another client write the rows after the transaction began.
	newer := func(g *guard, rows ...string) {
		other := g.env.NewClient()
		for _, r := range rows {
			fixture.Put(g, g.ctx, other, r, "c", "newer")
		}
	}
	runRequestCases(t, []requestCase{
		{name: "a newer write", do: func(g *guard) {
			g.fails(percolator.ErrConflict, func(tx *percolator.Txn) error {
				newer(g, "r")
				return g.set(tx, "r")
			})
		}, want: cost{"Oracle": 1, "CheckAndMutateRow": 1, "ReadRows 1": 1}},
		{name: "a newer write of a secondary", do: func(g *guard) { // the primary is rolled back
			g.failsTogether(percolator.ErrConflict, func(tx *percolator.Txn) error {
				newer(g, "b")
				return g.set(tx, "a", "b")
			})
		}, want: cost{"Oracle": 1, "CheckAndMutateRow": 3, "ReadRows 1": 1}},
		{name: "a newer write of the primary", do: func(g *guard) { // the secondary is erased as well
			g.failsTogether(percolator.ErrConflict, func(tx *percolator.Txn) error {
				newer(g, "a")
				return g.set(tx, "a", "b")
			})
		}, want: cost{"Oracle": 1, "CheckAndMutateRow": 3, "ReadRows 1": 1, "MutateRows 1": 1}},
		{name: "something newer among 100 columns that are written", do: func(g *guard) { // in one that is not: the exact predicates decide
			g.commit(func(tx *percolator.Txn) error {
				newer(g, "r")
				for _, col := range rowNames(50) {
					if err := errors.Join(tx.Set(fixture.Cell("r", "a"+col), nil), tx.Set(fixture.Cell("r", "d"+col), nil)); err != nil {
						return err
					}
				}
				return nil
			})
		}, want: cost{"Oracle": 2, "CheckAndMutateRow": 3}},
		{name: "a live lock, on its primary", prepare: func(g *guard) { g.alive("r", "b") }, do: writes(percolator.ErrLocked, "r"),
			want: cost{"Oracle": 2, "CheckAndMutateRow": 1, "ReadRows 1": 1}},
		{name: "a live lock, on a secondary", prepare: func(g *guard) { g.alive("b", "r") }, do: writes(percolator.ErrLocked, "r"),
			want: cost{"Oracle": 2, "CheckAndMutateRow": 1, "ReadRows 1": 2}},
		{name: "a lock whose primary is committed", prepare: func(g *guard) { g.halfCommitted("b", "r") }, do: writes(nil, "r"),
			want: cost{"Oracle": 2, "CheckAndMutateRow": 4, "ReadRows 1": 2}},
		{name: "a lock whose primary is rolled back", prepare: func(g *guard) { g.halfRolledBack("b", "r") }, do: writes(nil, "r"),
			want: cost{"Oracle": 2, "CheckAndMutateRow": 4, "ReadRows 1": 2}},
		{name: "a dead lock, on its primary", prepare: func(g *guard) { g.dead("r", "b") }, do: writes(nil, "r"),
			want: cost{"Oracle": 3, "CheckAndMutateRow": 4, "ReadRows 1": 2}},
		{name: "a dead lock, on a secondary", prepare: func(g *guard) { g.dead("b", "r") }, do: writes(nil, "r"),
			want: cost{"Oracle": 3, "CheckAndMutateRow": 5, "ReadRows 1": 2}},
	})
}

func TestRequestsOfReadsPastLocks(t *testing.T) {
	runRequestCases(t, []requestCase{
		{name: "a lock that is younger than the snapshot", do: func(g *guard) {
			s := g.snapshot()
			g.alive("r", "b")
			fixture.WantValue(g, g.ctx, s, fixture.Cell("r", "c"), "v")
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "a lock whose primary is committed", prepare: func(g *guard) { g.halfCommitted("b", "r") }, do: reads("r", "half"),
			want: cost{"Oracle": 1, "ReadRows 1": 2, "CheckAndMutateRow": 1}},
		{name: "a lock of the own client, in phase two", gather: []func(*guard, int){inT}, do: reads("second1", "v"), // it knows what the lock is about to become
			want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "a lock whose primary is rolled back", prepare: func(g *guard) { g.halfRolledBack("b", "r") }, do: reads("r", "v"),
			want: cost{"Oracle": 1, "ReadRows 1": 3, "CheckAndMutateRow": 1}},
		{name: "a dead lock, on its primary", prepare: func(g *guard) { g.dead("r", "b") }, do: reads("r", "v"),
			want: cost{"Oracle": 2, "ReadRows 1": 3, "CheckAndMutateRow": 1}},
		{name: "a dead lock, on a secondary", prepare: func(g *guard) { g.dead("b", "r") }, do: reads("r", "v"),
			want: cost{"Oracle": 2, "ReadRows 1": 3, "CheckAndMutateRow": 2}},
		{name: "10 locks of one committed transaction", prepare: func(g *guard) { g.halfCommitted(append([]string{"first"}, rowNames(10)...)...) },
			do:   func(g *guard) { g.all(g.snapshot(), cellsIn("c", rowNames(10)...)...) },
			want: cost{"Oracle": 1, "ReadRows 10": 1, "ReadRows 1": 1, "CheckAndMutateRow": 10}},
		{name: "a scan, past 10 locks of one committed transaction", prepare: func(g *guard) { g.halfCommitted(append([]string{"first"}, rowNames(10)...)...) },
			do: func(g *guard) {
				fixture.Must(g, fixture.FirstError(g.snapshot().Scan(g.ctx, "t", percolator.Prefix("row-"))))
			},
			want: cost{"Oracle": 1, "ReadRows range": 1, "ReadRows 1": 1, "CheckAndMutateRow": 10}},
		{name: "10 dead locks of one transaction", prepare: func(g *guard) { g.dead(append([]string{"first"}, rowNames(10)...)...) },
			do:   func(g *guard) { g.all(g.snapshot(), cellsIn("c", rowNames(10)...)...) },
			want: cost{"Oracle": 2, "ReadRows 10": 2, "ReadRows 1": 1, "CheckAndMutateRow": 11}},
		{name: "a scan, past 10 dead locks, the primary's among them", prepare: func(g *guard) { g.dead(rowNames(10)...) },
			do: func(g *guard) {
				fixture.Must(g, fixture.FirstError(g.snapshot().Scan(g.ctx, "t", percolator.Prefix("row-"))))
			},
			want: cost{"Oracle": 2, "ReadRows range": 1, "ReadRows 1": 1, "ReadRows 10": 1, "CheckAndMutateRow": 10}},
		{name: "10 locked columns of a dead transaction, that another writes", prepare: func(g *guard) { g.deadRow(10) },
			do:   func(g *guard) { g.commit(func(tx *percolator.Txn) error { return g.setColumns(tx, 10) }) },
			want: cost{"Oracle": 3, "ReadRows 1": 2, "CheckAndMutateRow": 14}},
		{name: "ResolveLock of a dead lock on its primary", prepare: func(g *guard) { g.dead("r") }, do: func(g *guard) {
			page, err := g.c.Engine().Reads.ReadPending(g.ctx, "t", percolator.Row("r"), 1, 0)
			fixture.Must(g, err)
			if became, err := admin.New(g.c).ResolveLock(g.ctx, page.Rows[0].Locks[0]); err != nil || became != model.LockRolledBack {
				g.Errorf("%v, %v", became, err)
			}
		}, want: cost{"Oracle": 1, "ReadRows range": 1, "ReadRows 1": 2, "CheckAndMutateRow": 1}},
	})
}

// The locks of a page are resolved in parallel, and their transaction is decided once.
func TestLocksOfAPageAreResolvedTogether(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t, percolatortest.Configure(longTTL))
	g := &guard{T: t, env: env, ctx: fixture.Context(t), c: env.NewClient()}
	const rows, together = 60, 32
	g.dead(rowNames(rows)...)
	hold := percolatortest.NewHold()
	faults := env.FaultsOf(g.c)
	marked := fixture.AtMost(1, func(r percolatortest.Request) bool { return r.Method == percolatortest.CheckAndMutateRow }, hold)
	faults.Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method != percolatortest.CheckAndMutateRow || marked(r) != percolatortest.Pass {
			return percolatortest.Pass
		}
		return hold
	})
	done := make(chan error, 1)
	go func() { done <- fixture.FirstError(g.snapshot().Scan(g.ctx, "t", percolator.All())) }()
	hold.Wait(t, together)
	hold.Release()
	fixture.Must(t, <-done)
	want := cost{"Oracle": 2, "ReadRows range": 1, "ReadRows 1": 1, fmt.Sprint("ReadRows ", rows): 1, "CheckAndMutateRow": rows}
	if got := costOf(faults.Requests()); !maps.Equal(got, want) {
		t.Errorf("sent %v\nwant %v", got, want)
	}
}

// Whoever waits for a live transaction looks at one of its cells.
func TestWaitForALiveTransactionOfManyRows(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t, percolatortest.Configure(longTTL))
	g := &guard{T: t, env: env, ctx: fixture.Context(t), c: env.NewClient()}
	const rows = 60
	other := env.NewClient(percolatortest.Configure(longTTL))
	hold := percolatortest.NewHold()
	env.FaultsOf(other).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			return hold
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, g.ctx, other)
	fixture.Must(t, g.set(tx, rowNames(rows)...))
	ended := make(chan error, 1)
	go func() { ended <- fixture.ErrOf(tx.Commit(g.ctx)) }()
	hold.Wait(t, 1)
	found := make(chan int, 1)
	go func() {
		n := 0
		for range g.snapshot().Scan(g.ctx, "t", percolator.All()) {
			n++
		}
		found <- n
	}()
	faults := env.FaultsOf(g.c)
	fixture.Eventually(t, "the scan has looked again", func() bool { return costOf(faults.Requests())["ReadRows 1"] >= 5 })
	waiting := costOf(faults.Requests())
	for kind := range waiting {
		if kind != "Oracle" && kind != "ReadRows 1" && kind != "ReadRows range" {
			t.Errorf("while it waited it sent %v", waiting)
		}
	}
	if waiting["ReadRows range"] != 1 {
		t.Errorf("while it waited it sent %v", waiting)
	}
	hold.Release()
	fixture.Must(t, <-ended)
	if n := <-found; n != 0 && n != rows {
		t.Errorf("the scan found %d of %d rows", n, rows)
	}
}

// deadRow is dead for columns of the row r.
func (g *guard) deadRow(columns int) {
	g.Helper()
	dying := g.env.NewClient()
	faults := g.env.FaultsOf(dying)
	faults.Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			faults.Crash()
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(g, g.ctx, dying)
	fixture.Must(g, g.setColumns(tx, columns))
	if _, err := tx.Commit(g.ctx); err == nil {
		g.Fatal("a client that had crashed has committed")
	}
	g.env.Clock.Advance(fixture.LockTTL)
}

// setColumns writes columns of the row r.
func (g *guard) setColumns(tx *percolator.Txn, n int) error {
	for i := range n {
		if err := tx.Set(fixture.Cell("r", fmt.Sprint("c", i)), []byte("v")); err != nil {
			return err
		}
	}
	return nil
}

// failsTogether is fails for a transaction of two rows, whose prewrites are held until both have
// been sent: none is spared because the other one failed.
func (g *guard) failsTogether(want error, f func(tx *percolator.Txn) error) {
	g.Helper()
	hold := percolatortest.NewHold()
	g.env.FaultsOf(g.c).Handle(fixture.AtMost(2, fixture.IsPrewrite, hold))
	tx := fixture.MustBegin(g, g.ctx, g.c)
	fixture.Must(g, f(tx))
	ended := make(chan error, 1)
	go func() { ended <- fixture.ErrOf(tx.Commit(g.ctx)) }()
	hold.Wait(g, 2)
	hold.Release()
	fixture.WantErr(g, <-ended, want)
}

// writes commits the row, or fails to.
func writes(want error, row string) func(*guard) {
	return func(g *guard) {
		tx := fixture.MustBegin(g, g.ctx, g.c)
		fixture.Must(g, g.set(tx, row))
		if _, err := tx.Commit(g.ctx); !errors.Is(err, want) {
			g.Errorf("commit: %v, want %v", err, want)
		}
	}
}

func reads(row, want string) func(*guard) {
	return func(g *guard) { fixture.WantValue(g, g.ctx, g.snapshot(), fixture.Cell(row, "c"), want) }
}

// holding has another client commit the rows, the first of which is the primary, up to the first
// request that is describes. The commit goes on when the test has ended.
func (g *guard) holding(is func(percolatortest.Request) bool, rows ...string) {
	g.Helper()
	other := g.env.NewClient(percolatortest.Configure(longTTL))
	hold := percolatortest.NewHold()
	g.env.FaultsOf(other).Handle(func(r percolatortest.Request) percolatortest.Action {
		if is(r) {
			return hold
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(g, g.ctx, other)
	for _, r := range rows {
		fixture.Must(g, tx.Set(fixture.Cell(r, "c"), []byte("half")))
	}
	ended := make(chan error, 1)
	go func() { ended <- fixture.ErrOf(tx.Commit(g.ctx)) }()
	hold.Wait(g, 1)
	g.Cleanup(func() {
		hold.Release()
		if err := <-ended; err != nil {
			g.Errorf("the other's commit: %v", err)
		}
	})
}

// alive leaves the rows locked by a transaction that is about to commit.
func (g *guard) alive(rows ...string) {
	g.Helper()
	g.holding(fixture.IsCommit, rows...)
}

// halfCommitted commits the first row; the others are still locked.
func (g *guard) halfCommitted(rows ...string) {
	g.Helper()
	g.holding(func(r percolatortest.Request) bool { return r.Method == percolatortest.MutateRows }, rows...)
}

// dead leaves the rows locked by a transaction whose time is over.
func (g *guard) dead(rows ...string) {
	g.Helper()
	fixture.CrashAfter(g, g.env, nil, rows...)
	g.env.Clock.Advance(fixture.LockTTL)
}

// halfRolledBack is dead, and somebody has rolled back the first row.
func (g *guard) halfRolledBack(rows ...string) {
	g.Helper()
	g.dead(rows...)
	fixture.WantNow(g, g.ctx, g.env.NewClient(), fixture.Cell(rows[0], "c"), "")
}
