package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A commit sends one conditional request for each row, one more for the commit point, and phase two
// in bulk.
func TestRequestsOfWrites(t *testing.T) {
	rows := func(n int) func(*guard) {
		return func(g *guard) { g.commit(func(tx *percolator.Txn) error { return g.set(tx, rowNames(n)...) }) }
	}
	columns := func(n int) func(*guard) {
		return func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				for i := range n {
					if err := tx.Set(fixture.Cell("new", fmt.Sprint("c", i)), []byte("v")); err != nil {
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
			tx := fixture.MustBegin(g, g.ctx, g.c)
			fixture.Must(g, g.set(tx, "r"))
			fixture.Must(g, tx.Rollback(g.ctx))
		}, want: cost{"Oracle": 1}},
		{name: "nothing", do: rows(0), want: cost{"Oracle": 1}},
		{name: "1 column", do: columns(1), want: one},
		{name: "3 columns of a row", do: columns(3), want: one},
		{name: "100 columns of a row", do: columns(100), want: one},
		{name: "an observed column", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return tx.Set(fixture.Cell("r", "seen"), []byte("w")) })
		}, want: one},
		{name: "a deletion", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("r", "c")) })
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
				return errors.Join(fixture.ErrOf(tx.Get(g.ctx, fixture.Cell("r", "c"))), g.set(tx, "r"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "2 rows, after a read", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(fixture.ErrOf(tx.Get(g.ctx, fixture.Cell("r", "c"))), g.set(tx, "a", "b"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		{name: "Update, which meets a newer write once", do: func(g *guard) {
			other := g.env.NewClient()
			first := true
			fixture.Must(g, fixture.Update(g.ctx, g.c, func(tx *percolator.Txn) error {
				if first {
					first = false
					fixture.Put(g, g.ctx, other, "r", "c", "newer")
				}
				return g.set(tx, "r")
			}))
		}, want: cost{"Oracle": 3, "CheckAndMutateRow": 3, "ReadRows 1": 1}},

		{name: "Insert", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return tx.Insert(fixture.Cell("new", "c"), nil) })
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "Insert of what was read", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				g.all(tx, fixture.Cell("new", "c"))
				return tx.Insert(fixture.Cell("new", "c"), nil)
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "Insert in 3 rows", gather: inTable, do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(tx.Insert(fixture.Cell("a", "c"), nil), tx.Insert(fixture.Cell("b", "c"), nil), tx.Insert(fixture.Cell("d", "c"), nil))
			})
		}, want: cost{"Oracle": 2, "ReadRows 3": 1, "CheckAndMutateRow": 4, "MutateRows 2": 1}},
		{name: "Insert of what exists", do: func(g *guard) {
			g.fails(percolator.ErrExists, func(tx *percolator.Txn) error { return tx.Insert(fixture.Cell("r", "c"), nil) })
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},

		{name: "GetForUpdate", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return fixture.ErrOf(tx.GetForUpdate(g.ctx, fixture.Cell("r", "c"))) })
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "GetForUpdate, then a write of the same cell", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(fixture.ErrOf(tx.GetForUpdate(g.ctx, fixture.Cell("r", "c"))), g.set(tx, "r"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "LockReads: 2 rows read, another written", gather: inTable, do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				g.all(tx, fixture.Cell("a", "c"), fixture.Cell("b", "c"))
				return g.set(tx, "d")
			}, percolator.LockReads())
		}, want: cost{"Oracle": 2, "ReadRows 2": 1, "CheckAndMutateRow": 4, "MutateRows 2": 1}},

		// It has no prewrites with which its entry could travel, and dates the entry by itself
		// (J2).
		{name: "a weak notification alone", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell("r", "poke")) })
		}, want: cost{"Oracle": 3, "MutateRows 1": 1}},
		{name: "a weak notification with a write", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(g.set(tx, "r"), tx.Notify(fixture.Cell("r", "poke")))
			})
		}, want: cost{"Oracle": 2, "CheckAndMutateRow": 2, "MutateRows 1": 1}},
		{name: "an acknowledgment", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return fixture.ErrOf((*commit.Txn)(tx).Acknowledge(g.ctx, fixture.Cell("r", "seen"), "O", []string{"O", "P"}))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "an acknowledgment with a write in the same row", do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(fixture.ErrOf((*commit.Txn)(tx).Acknowledge(g.ctx, fixture.Cell("r", "seen"), "O", []string{"O"})), g.set(tx, "r"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
	})
}

// The old value of an indexed cell is read, and an entry is a row of its own.
func TestRequestsOfIndexes(t *testing.T) {
	inIndex := []func(*guard, int){inCityIndex}
	inBoth := []func(*guard, int){inCityIndex, inPeople}
	cityOf := func(person, name string) func(*guard) {
		return func(g *guard) { g.commit(func(tx *percolator.Txn) error { return fixture.City.Set(tx, person, name) }) }
	}
	mailOf := func(person, address string) func(*guard) {
		return func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, person, address) })
		}
	}
	runRequestCases(t, []requestCase{
		{name: "a new value", do: cityOf("ann", "Rome"), want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		{name: "the value that was there", prepare: cityOf("ann", "Rome"), do: cityOf("ann", "Rome"),
			want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 2}},
		{name: "another value", prepare: cityOf("ann", "Rome"), gather: inIndex, do: cityOf("ann", "Bern"),
			want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 4, "MutateRows 2": 1}},
		{name: "another value, after a read", prepare: cityOf("ann", "Rome"), gather: inIndex, do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				return errors.Join(fixture.ErrOf(fixture.City.Get(g.ctx, tx, "ann")), fixture.City.Set(tx, "ann", "Bern"))
			})
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 4, "MutateRows 2": 1}},
		{name: "a deletion", prepare: cityOf("ann", "Rome"), do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error { return fixture.City.Delete(tx, "ann") })
		}, want: cost{"Oracle": 2, "ReadRows 1": 1, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		{name: "10 rows with new values", gather: inBoth, do: func(g *guard) {
			g.commit(func(tx *percolator.Txn) error {
				for _, r := range rowNames(10) {
					if err := fixture.City.Set(tx, r, "Rome"); err != nil {
						return err
					}
				}
				return nil
			})
		}, want: cost{"Oracle": 2, "ReadRows 10": 1, "CheckAndMutateRow": 21, "MutateRows 9": 1, "MutateRows 10": 1}},
		{name: "a new value of a unique index", do: mailOf("ann", "a@b"),
			want: cost{"Oracle": 2, "ReadRows 1": 2, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		{name: "a value of a unique index that is taken", prepare: mailOf("bob", "a@b"), do: func(g *guard) {
			g.fails(percolator.ErrUnique, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "ann", "a@b") })
		}, want: cost{"Oracle": 1, "ReadRows 1": 2}},
	})
}

// A blind transaction begins with a timestamp that was asked for ahead: until its rows are locked
// it waits for nothing from the oracle.
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
			tx := fixture.MustBegin(t, g.ctx, g.c, percolator.Blind())
			fixture.Must(t, g.set(tx, rc.rows...))
			committed := make(chan error, 1)
			go func() { committed <- fixture.ErrOf(tx.Commit(g.ctx)) }()
			hold.Wait(t, 2) // the one ahead, and the commit timestamp: the rows are locked
			if got := costOf(g.env.FaultsOf(g.c).Requests()); got["CheckAndMutateRow"] != len(rc.rows) || got["Oracle"] != 2 {
				t.Errorf("before any answer of the oracle: %v", got)
			}
			hold.Release()
			fixture.Must(t, <-committed)
			g.wantBlind(rc.want)
		})
	}
	// What this client has written since the timestamp was asked for would be a conflict: it asks
	// for a new one.
	t.Run("a row that it has just written", func(t *testing.T) {
		t.Parallel()
		g := newBlindGuard(t)
		fixture.Put(t, g.ctx, g.c, "a", "c", "v")
		g.count()
		g.commit(func(tx *percolator.Txn) error { return g.set(tx, "a") }, percolator.Blind())
		g.wantBlind(cost{"Oracle": 2, "CheckAndMutateRow": 2})
	})
	// What is free at the timestamp at hand is free, or a conflict; what is taken there is looked
	// at once more.
	for name, uc := range map[string]struct {
		before, since string // what another client has ann hold
		want          error
		cost          cost
	}{
		"a unique value":                       {"", "", nil, cost{"Oracle": 1, "ReadRows 1": 2, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
		"a unique value that is taken":         {"x", "", percolator.ErrUnique, cost{"Oracle": 1, "ReadRows 1": 4}},
		"a unique value that was given up now": {"x", "y", nil, cost{"Oracle": 2, "ReadRows 1": 4, "CheckAndMutateRow": 3, "MutateRows 1": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newBlindGuard(t)
			other := g.env.NewClient()
			hold := func(value string) {
				if value != "" {
					fixture.Must(t, fixture.Update(g.ctx, other, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "ann", value) }))
					fixture.Must(t, other.Flush(g.ctx))
				}
			}
			hold(uc.before)
			requestAhead(t, g.ctx, g.c)
			hold(uc.since)
			g.count()
			_, err := g.c.Update(g.ctx, func(_ context.Context, tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", "x") }, percolator.Blind())
			fixture.WantErr(t, err, uc.want)
			g.wantBlind(uc.cost)
		})
	}
}

// newBlindGuard is a client that has start timestamps at hand.
func newBlindGuard(t *testing.T) *guard {
	env := fixture.NewEnv(t, percolatortest.Configure(longTTL))
	g := &guard{T: t, env: env, ctx: fixture.Context(t), c: env.Client}
	fixture.Must(t, fixture.MustBegin(t, g.ctx, g.c, percolator.Blind()).Rollback(context.Background()))
	g.awaitStamps()
	g.count()
	return g
}

func (g *guard) awaitStamps() {
	g.Helper()
	fixture.Eventually(g, "start timestamps at hand", func() bool {
		n, asking := g.c.Engine().Clock.Ahead()
		return n >= 1 && !asking
	})
}

func (g *guard) wantBlind(want cost) {
	g.Helper()
	g.awaitStamps()
	fixture.Must(g, g.c.Flush(g.ctx))
	const ahead = 1
	want["Oracle"] += ahead
	if got := costOf(g.env.FaultsOf(g.c).Requests()); got.String() != want.String() {
		g.Errorf("sent %v\nwant %v", got, want)
	}
}
