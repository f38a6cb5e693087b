package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A commit sends one conditional request for each row, one more for the commit point, and phase two in bulk.
func TestRequestsOfWrites(t *testing.T) {
	rows := func(n int) func(*guard) {
		return func(g *guard) { g.commit(func(tx *percolator.Txn) error { return g.set(tx, rowNames(n)...) }) }
	}
	columns := func(n int) func(*guard) {
		return func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				for i := range n {
					if err := tx.Set(cell("new", fmt.Sprint("c", i)), []byte("v")); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	inTable := []func(*guard, int){inT}
	one := cost{"Oracle": 2, "CheckAndMutateRow": 2}
	runRequestCases(t, []requestCase{
		{name: "rolled back", do: func(g *guard) {
			tx := mustBegin(g, g.ctx, g.c)
			must(g, g.set(tx, "r"))
			must(g, tx.Rollback(g.ctx))
		}, want: cost{"Oracle": 1}},
		{name: "nothing", do: rows(0), want: cost{"Oracle": 1}},
		{name: "1 column", do: columns(1), want: one},
		{name: "3 columns of a row", do: columns(3), want: one},
		{name: "100 columns of a row", do: columns(100), want: one},
		{name: "an observed column", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return tx.Set(cell("r", "seen"), []byte("w")) })
		}, want: one},
		{name: "a deletion", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return tx.Delete(cell("r", "c")) })
		}, want: one},
		{name: "2 rows", do: rows(2), want: cost{"Oracle": 2, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		{name: "10 rows", gather: inTable, do: rows(10), want: cost{"Oracle": 2, "CheckAndMutateRow": 11, "MutateRows 9": 1}},
		{name: "600 rows", gather: inTable, do: rows(600), want: cost{"Oracle": 2, "CheckAndMutateRow": 601, "MutateRows 512": 1, "MutateRows 87": 1}},
		{name: "20 transactions of 2 rows", gather: inTable, do: func(g *guard) {
			for i := range 20 {
				g.commit(func(tx *percolator.Txn) error { return g.set(tx, fmt.Sprint("a", i), fmt.Sprint("b", i)) })
			}
		}, want: cost{"Oracle": 40, "CheckAndMutateRow": 60, "MutateRows 20": 1}},
		{name: "a row that was read", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(errOf(tx.Get(g.ctx, cell("r", "c"))), g.set(tx, "r"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "2 rows, after a read", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(errOf(tx.Get(g.ctx, cell("r", "c"))), g.set(tx, "a", "b"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		{name: "Update, which meets a newer write once", do: func(g *guard) {
			other := g.env.NewClient()
			first := true
			must(g, update(g.ctx, g.c, func(tx *percolator.Txn) error {
				if first {
					first = false
					put(g, g.ctx, other, "r", "c", "newer")
				}
				return g.set(tx, "r")
			}))
		}, want: cost{"Oracle": 3, "CheckAndMutateRow": 3, "ReadRows 1": 1}},

		{name: "Insert", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return tx.Insert(cell("new", "c"), nil) })
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "Insert of what was read", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				g.all(tx, cell("new", "c"))
				return tx.Insert(cell("new", "c"), nil)
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "Insert in 3 rows", gather: inTable, do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(tx.Insert(cell("a", "c"), nil), tx.Insert(cell("b", "c"), nil), tx.Insert(cell("d", "c"), nil))
			})
		}, want: cost{"Oracle": 2, "ReadRows 3": 1, "CheckAndMutateRow": 4, "MutateRows 2": 1}},
		{name: "Insert of what exists", do: func(g *guard) {
			g.fails(percolator.ErrExists, func(tx *percolator.Txn) error { return tx.Insert(cell("r", "c"), nil) })
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},

		{name: "GetForUpdate", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return errOf(tx.GetForUpdate(g.ctx, cell("r", "c"))) })
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "GetForUpdate, then a write of the same cell", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(errOf(tx.GetForUpdate(g.ctx, cell("r", "c"))), g.set(tx, "r"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "LockReads: 2 rows read, another written", gather: inTable, do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				g.all(tx, cell("a", "c"), cell("b", "c"))
				return g.set(tx, "d")
			}, percolator.LockReads())
		}, want: cost{"Oracle": 2, "ReadRows 2": 1, "CheckAndMutateRow": 4, "MutateRows 2": 1}},

		{name: "a weak notification alone", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return tx.Notify(cell("r", "poke")) })
		}, want: cost{"Oracle": 2, "MutateRows 1": 1}},
		{name: "a weak notification with a write", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return errors.Join(g.set(tx, "r"), tx.Notify(cell("r", "poke"))) })
		}, want: cost{"Oracle": 2, "CheckAndMutateRow": 2, "MutateRows 1": 1}},
		{name: "an acknowledgment", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errOf((*commit.Txn)(tx).Acknowledge(g.ctx, cell("r", "seen"), "O", []string{"O", "P"}))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "an acknowledgment with a write in the same row", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(errOf((*commit.Txn)(tx).Acknowledge(g.ctx, cell("r", "seen"), "O", []string{"O"})), g.set(tx, "r"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
	})
}

// The old value of an indexed cell is read, and an entry is a row of its own.
func TestRequestsOfIndexes(t *testing.T) {
	inIndex := []func(*guard, int){inCityIndex}
	inBoth := []func(*guard, int){inCityIndex, inPeople}
	cityOf := func(person, name string) func(*guard) {
		return func(g *guard) { g.commit(func(tx *percolator.Txn) error { return city.Set(tx, person, name) }) }
	}
	mailOf := func(person, address string) func(*guard) {
		return func(g *guard) { g.commit(func(tx *percolator.Txn) error { return mail.Set(tx, person, address) }) }
	}
	runRequestCases(t, []requestCase{
		{name: "a new value", do: cityOf("ann", "Rome"), want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		{name: "the value that was there", prepare: cityOf("ann", "Rome"), do: cityOf("ann", "Rome"),
			want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "another value", prepare: cityOf("ann", "Rome"), gather: inIndex, do: cityOf("ann", "Bern"),
			want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 4, "MutateRows 2": 1}},
		{name: "another value, after a read", prepare: cityOf("ann", "Rome"), gather: inIndex, do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(errOf(city.Get(g.ctx, tx, "ann")), city.Set(tx, "ann", "Bern"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 4, "MutateRows 2": 1}},
		{name: "a deletion", prepare: cityOf("ann", "Rome"), do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return city.Delete(tx, "ann") })
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		{name: "10 rows with new values", gather: inBoth, do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				for _, r := range rowNames(10) {
					if err := city.Set(tx, r, "Rome"); err != nil {
						return err
					}
				}
				return nil
			})
		}, want: cost{"Oracle": 2, "ReadRows 10": 1, "CheckAndMutateRow": 21, "MutateRows 9": 1, "MutateRows 10": 1}},
		{name: "a new value of a unique index", do: mailOf("ann", "a@b"),
			want: cost{"Oracle": 2, "ReadRows 1": 2, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		{name: "a value of a unique index that is taken", prepare: mailOf("bob", "a@b"), do: func(g *guard) {
			g.fails(percolator.ErrUnique, func(tx *percolator.Txn) error { return mail.Set(tx, "ann", "a@b") })
		}, want: cost{"Oracle": 1, "ReadRows 1": 2}},
	})
}

// A blind transaction begins with a timestamp that was asked for ahead: until its rows are locked it waits for nothing from the oracle.
func TestRequestsOfBlindTransactions(t *testing.T) {
	t.Parallel()
	for _, rc := range []struct {
		name string
		rows []string
		want cost // beside the timestamp that is asked for ahead, for the next
	}{
		{"1 row", []string{"a"}, cost{"Oracle": 1, "CheckAndMutateRow": 2}},
		{"2 rows", []string{"a", "b"}, cost{"Oracle": 1, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
	} {
		t.Run(rc.name, func(t *testing.T) {
			t.Parallel()
			g := newBlindGuard(t)
			hold := percolatortest.NewHold()
			g.env.FaultsOf(g.c).Handle(func(r percolatortest.Request) percolatortest.Action {
				if r.Method == percolatortest.Oracle {
					return hold
				}
				return percolatortest.Pass
			})
			tx := mustBegin(t, g.ctx, g.c, percolator.Blind())
			must(t, g.set(tx, rc.rows...))
			committed := make(chan error, 1)
			go func() { committed <- errOf(tx.Commit(g.ctx)) }()
			hold.Wait(t, 2) // the one ahead, and the commit timestamp: the rows are locked
			if got := costOf(g.env.FaultsOf(g.c).Requests()); got["CheckAndMutateRow"] != len(rc.rows) || got["Oracle"] != 2 {
				t.Errorf("before any answer of the oracle: %v", got)
			}
			hold.Release()
			must(t, <-committed)
			g.wantBlind(rc.want)
		})
	}
	// What this client has written since the timestamp was asked for would be a conflict: it asks for a new one.
	t.Run("a row that it has just written", func(t *testing.T) {
		t.Parallel()
		g := newBlindGuard(t)
		put(t, g.ctx, g.c, "a", "c", "v")
		g.count()
		g.commit(func(tx *percolator.Txn) error { return g.set(tx, "a") }, percolator.Blind())
		g.wantBlind(cost{"Oracle": 2, "CheckAndMutateRow": 2})
	})
}

// newBlindGuard is a client that has start timestamps at hand.
func newBlindGuard(t *testing.T) *guard {
	env := newEnv(t, percolatortest.Configure(longTTL))
	g := &guard{T: t, env: env, ctx: testContext(t), c: env.Client}
	must(t, mustBegin(t, g.ctx, g.c, percolator.Blind()).Rollback(context.Background()))
	g.awaitStamps()
	g.count()
	return g
}

func (g *guard) awaitStamps() {
	g.Helper()
	eventually(g, "start timestamps at hand", func() bool {
		n, asking := g.c.Engine().Clock.Ahead()
		return n >= 1 && !asking
	})
}

func (g *guard) wantBlind(want cost) {
	g.Helper()
	g.awaitStamps()
	must(g, g.c.Flush(g.ctx))
	const ahead = 1
	want["Oracle"] += ahead
	if got := costOf(g.env.FaultsOf(g.c).Requests()); got.String() != want.String() {
		g.Errorf("sent %v\nwant %v", got, want)
	}
}
