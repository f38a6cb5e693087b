package percolator_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// wholeGuard is a guard whose client tries to read whole rows from the beginning. The row "narrow"
// has the columns a and b, "wide" has 40 columns and "heavy" one of 8 KB; all have the column c.
func wholeGuard(t *testing.T, configure func(*percolator.Config)) *guard {
	env := fixture.NewEnv(t, percolatortest.Configure(configure))
	g := &guard{T: t, env: env, ctx: fixture.Context(t), c: env.Client}
	g.c.Engine().Reads.ReadWholeRowsAfter(0)
	g.commit(func(tx *percolator.Txn) error {
		for _, row := range []string{"narrow", "wide", "heavy"} {
			fixture.Must(t, tx.Set(fixture.Cell(row, "c"), []byte(row)))
		}
		for _, col := range []string{"a", "b"} {
			fixture.Must(t, tx.Set(fixture.Cell("narrow", col), []byte(col)))
		}
		for i := range 40 {
			fixture.Must(t, tx.Set(fixture.Cell("wide", fmt.Sprint("c", i)), []byte("v")))
		}
		return tx.Set(fixture.Cell("heavy", "body"), bytes.Repeat([]byte("x"), 8<<10))
	})
	fixture.Must(t, g.c.Flush(g.ctx))
	g.count()
	return g
}

func (g *guard) wantCost(want cost) {
	g.Helper()
	if got := costOf(g.env.FaultsOf(g.c).Requests()); got.String() != want.String() {
		g.Errorf("sent %v\nwant %v", got, want)
	}
}

// A narrow row takes one request, whatever is asked of it: its other columns, and that it has no
// more.
func TestNarrowRowIsReadOnce(t *testing.T) {
	t.Parallel()
	g := wholeGuard(t, func(*percolator.Config) {})
	s := g.snapshot()
	fixture.WantValue(t, g.ctx, s, fixture.Cell("narrow", "c"), "narrow")
	fixture.WantValue(t, g.ctx, s, fixture.Cell("narrow", "a"), "a")
	fixture.WantValue(t, g.ctx, s, fixture.Cell("narrow", "b"), "b")
	fixture.WantValue(t, g.ctx, s, fixture.Cell("narrow", "none"), "")
	g.wantCost(cost{"Oracle": 1, "ReadRows 1": 1})

	fixture.WantValue(t, g.ctx, s, fixture.Cell("absent", "a"), "")
	fixture.WantValue(t, g.ctx, s, fixture.Cell("absent", "b"), "")
	g.wantCost(cost{"Oracle": 1, "ReadRows 1": 2})
	if !g.c.Engine().Reads.ReadsWhole("t") {
		t.Error("the trial has ended")
	}
}

// A row that is too wide to be read whole is read again by name, and ends the trial: the next reads
// of its table name their columns.
func TestWideRowEndsTheTrial(t *testing.T) {
	t.Parallel()
	for _, batching := range []bool{true, false} {
		g := wholeGuard(t, func(cfg *percolator.Config) { cfg.DisableBatching = !batching })
		s := g.snapshot()
		fixture.WantValue(t, g.ctx, s, fixture.Cell("wide", "c"), "wide")
		g.wantCost(cost{"Oracle": 1, "ReadRows 1": 2})
		if g.c.Engine().Reads.ReadsWhole("t") {
			t.Error("the trial goes on")
		}
		fixture.WantValue(t, g.ctx, s, fixture.Cell("wide", "c7"), "v")
		fixture.WantValue(t, g.ctx, s, fixture.Cell("wide", "none"), "")
		g.wantCost(cost{"Oracle": 1, "ReadRows 1": 4})
	}
}

// What makes a row too heavy is what was not asked for. Its answer counts: it was not cut off.
func TestHeavyRowEndsTheTrial(t *testing.T) {
	t.Parallel()
	g := wholeGuard(t, func(*percolator.Config) {})
	if v, err := g.snapshot().Get(g.ctx, fixture.Cell("heavy", "body")); err != nil || len(v) != 8<<10 || !g.c.Engine().Reads.ReadsWhole("t") {
		t.Errorf("%d bytes, %v; a large value that was asked for ends the trial", len(v), err)
	}
	fixture.WantValue(t, g.ctx, g.snapshot(), fixture.Cell("heavy", "c"), "heavy")
	g.wantCost(cost{"Oracle": 2, "ReadRows 1": 2})
	if g.c.Engine().Reads.ReadsWhole("t") {
		t.Error("8 KB that nobody asked for did not end the trial")
	}
}

// Of rows that travel together, those that were cut off are read again, alone.
func TestWideRowAmongOthers(t *testing.T) {
	t.Parallel()
	t.Run("of one call", func(t *testing.T) {
		t.Parallel()
		g := wholeGuard(t, func(*percolator.Config) {})
		values, err := g.snapshot().GetMulti(g.ctx, fixture.Cell("narrow", "c"), fixture.Cell("wide", "c"), fixture.Cell("absent", "c"))
		fixture.Must(t, err)
		if string(values[0]) != "narrow" || string(values[1]) != "wide" || values[2] != nil {
			t.Errorf("%q", values)
		}
		g.wantCost(cost{"Oracle": 1, "ReadRows 3": 1, "ReadRows 1": 1})
	})
	t.Run("of many goroutines and columns", func(t *testing.T) {
		t.Parallel()
		g := wholeGuard(t, func(*percolator.Config) {})
		asked := map[percolator.Cell]string{fixture.Cell("narrow", "a"): "a", fixture.Cell("narrow", "b"): "b", fixture.Cell("absent", "d"): "", fixture.Cell("wide", "c3"): "v"}
		hold := percolatortest.NewHold()
		g.env.FaultsOf(g.c).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.ReadRows {
				return hold
			}
			return percolatortest.Pass
		})
		var readers sync.WaitGroup
		read := func(c percolator.Cell, want string) {
			s := g.snapshot() // of its own
			readers.Go(func() { fixture.WantValue(t, g.ctx, s, c, want) })
		}
		read(fixture.Cell("narrow", "c"), "narrow")
		hold.Wait(t, 1)
		read(fixture.Cell("narrow", "c"), "narrow")
		hold.Wait(t, 2)
		for c, want := range asked {
			read(c, want)
		}
		fixture.Eventually(t, "the others wait", func() bool { return g.c.Engine().Reads.Waiting() == len(asked) })
		hold.Release()
		readers.Wait()
		g.wantCost(cost{"Oracle": 6, "ReadRows 1": 3, "ReadRows 3": 1})
	})
}

// A cell of the row that is locked is not taken for absent: who asks for it waits for the lock, or
// resolves it.
func TestLockedNeighbourInAWholeRow(t *testing.T) {
	t.Parallel()
	g := wholeGuard(t, longTTL)
	fixture.Must(t, g.c.Flush(g.ctx))
	g.halfCommitted("first", "other") // the column c of other is locked, its transaction committed
	fixture.Put(t, g.ctx, g.c, "other", "d", "v")
	g.count()
	s := g.snapshot()
	fixture.WantValue(t, g.ctx, s, fixture.Cell("other", "d"), "v")
	fixture.WantValue(t, g.ctx, s, fixture.Cell("other", "none"), "")
	fixture.WantValue(t, g.ctx, s, fixture.Cell("other", "c"), "half")
}

// Trials become rarer with each that fails.
func TestTrialsBecomeRarer(t *testing.T) {
	t.Parallel()
	g := wholeGuard(t, func(*percolator.Config) {})
	g.c.Engine().Reads.ReadWholeRowsAfter(2) // of a table that has not been read
	read := func(row string) {
		t.Helper()
		s := g.snapshot()
		_, err := s.GetMulti(g.ctx, percolator.Cell{Table: "u", Row: row, Column: "c"})
		fixture.Must(t, err)
	}
	g.commit(func(tx *percolator.Txn) error {
		for i := range 40 {
			fixture.Must(t, tx.Set(percolator.Cell{Table: "u", Row: "wide", Column: fmt.Sprint("c", i)}, nil))
		}
		return nil
	})
	fixture.Must(t, g.c.Flush(g.ctx))
	for i, whole := range []bool{false, false, true} {
		if g.c.Engine().Reads.ReadsWhole("u") != whole {
			t.Errorf("before read %d: whole rows %v", i, !whole)
		}
		read("wide")
	}
	for range 2 * 16 {
		if g.c.Engine().Reads.ReadsWhole("u") {
			t.Fatal("the next trial comes as soon as the first")
		}
		read("wide")
	}
	if !g.c.Engine().Reads.ReadsWhole("u") {
		t.Error("there is no second trial")
	}
}
