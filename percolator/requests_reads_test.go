package percolator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func TestRequestsOfReads(t *testing.T) {
	inU := func(cells []percolator.Cell) []percolator.Cell {
		for i := range cells {
			cells[i].Table = "u"
		}
		return cells
	}
	runRequestCases(t, []requestCase{
		{name: "begin and get", do: func(g *guard) {
			fixture.WantValue(g, g.ctx, fixture.MustBegin(g, g.ctx, g.c), fixture.Cell("r", "c"), "v")
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "snapshot and get", do: func(g *guard) {
			fixture.WantValue(g, g.ctx, g.snapshot(), fixture.Cell("r", "c"), "v")
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "get of an absent row", do: func(g *guard) {
			fixture.WantValue(g, g.ctx, g.snapshot(), fixture.Cell("none", "c"), "")
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "snapshot that may be stale", do: func(g *guard) {
			fixture.WantValue(g, g.ctx, g.snapshot(percolator.MaxStaleness(time.Hour)), fixture.Cell("r", "c"), "v")
		}, want: cost{"ReadRows 1": 1}},
		{name: "get again, absence included", do: func(g *guard) {
			tx := fixture.MustBegin(g, g.ctx, g.c)
			for range 3 {
				fixture.WantValue(g, g.ctx, tx, fixture.Cell("r", "c"), "v")
				fixture.WantValue(g, g.ctx, tx, fixture.Cell("none", "c"), "")
			}
		}, want: cost{"Oracle": 1, "ReadRows 1": 2}},
		{name: "get what was set or deleted", do: func(g *guard) {
			tx := fixture.MustBegin(g, g.ctx, g.c)
			fixture.Must(g, tx.Set(fixture.Cell("r", "c"), []byte("own")))
			fixture.Must(g, tx.Delete(fixture.Cell("r", "seen")))
			fixture.WantValue(g, g.ctx, tx, fixture.Cell("r", "c"), "own")
			fixture.WantValue(g, g.ctx, tx, fixture.Cell("r", "seen"), "")
		}, want: cost{"Oracle": 1}},

		{name: "many columns of a row", do: func(g *guard) {
			var cells []percolator.Cell
			for i := range 50 {
				cells = append(cells, fixture.Cell("r", fmt.Sprint("c", i)))
			}
			g.all(g.snapshot(), cells...)
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "many rows, twice", do: func(g *guard) {
			s := g.snapshot()
			g.all(s, cellsIn("c", rowNames(300)...)...)
			g.all(s, cellsIn("c", rowNames(300)...)...)
		}, want: cost{"Oracle": 1, "ReadRows 300": 1}},
		{name: "many rows, some of them known", do: func(g *guard) {
			s := g.snapshot()
			g.all(s, cellsIn("c", rowNames(10)...)...)
			g.all(s, cellsIn("c", rowNames(25)...)...)
		}, want: cost{"Oracle": 1, "ReadRows 10": 1, "ReadRows 15": 1}},
		{name: "more rows than a request names", do: func(g *guard) {
			g.all(g.snapshot(), cellsIn("c", rowNames(513)...)...)
		}, want: cost{"Oracle": 1, "ReadRows 512": 1, "ReadRows 1": 1}},
		{name: "rows of two tables", do: func(g *guard) {
			g.all(g.snapshot(), append(cellsIn("c", "a", "b", "d"), inU(cellsIn("c", "a", "b"))...)...)
		}, want: cost{"Oracle": 1, "ReadRows 3": 1, "ReadRows 2": 1}},
		{name: "rows of which different columns are read", do: func(g *guard) {
			g.all(g.snapshot(), fixture.Cell("a", "c"), fixture.Cell("b", "c"), fixture.Cell("b", "d"), fixture.Cell("e", "d"), fixture.Cell("e", "c"))
		}, want: cost{"Oracle": 1, "ReadRows 1": 1, "ReadRows 2": 1}},

		{name: "two columns, before anything is learned", do: readInTurn(1, "c", "d"), want: cost{"Oracle": 1, "ReadRows 1": 2}},
		{name: "two columns, one by one, after eight transactions did so", prepare: readInTurn(8, "c", "d"), do: readInTurn(1, "c", "d"),
			want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "four columns, one by one, after eight transactions did so", prepare: readInTurn(8, "c", "d", "e", "f"),
			do: readInTurn(1, "c", "d", "e", "f"), want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "a column that was not expected", prepare: readInTurn(8, "c", "d"), do: readInTurn(1, "c", "x"),
			want: cost{"Oracle": 1, "ReadRows 1": 2}},

		{name: "a value under records that change nothing", prepare: func(g *guard) { locked(g, g.env.NewClient()) }, do: func(g *guard) {
			fixture.WantValue(g, g.ctx, g.snapshot(), fixture.Cell("r", "c"), "v")
		}, want: cost{"Oracle": 1, "ReadRows 1": 2}},
		{name: "another one, by a client that has met such records", prepare: func(g *guard) { locked(g, g.c) }, do: func(g *guard) {
			fixture.WantValue(g, g.ctx, g.snapshot(), fixture.Cell("r", "c"), "v")
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "an earlier snapshot", do: func(g *guard) {
			before := g.snapshot()
			g.commit(func(tx *percolator.Txn) error { return g.set(tx, "r") })
			g.count()
			fixture.WantValue(g, g.ctx, g.snapshot(percolator.AsOfTimestamp(before.StartTimestamp())), fixture.Cell("r", "c"), "v")
		}, want: cost{"Oracle": 1, "ReadRows 1": 1}},
		{name: "a snapshot between start and commit of a later write", do: func(g *guard) { // whose data is not the record's
			tx := fixture.MustBegin(g, g.ctx, g.c)
			between := g.snapshot()
			fixture.Must(g, g.set(tx, "r"))
			fixture.MustCommit(g, g.ctx, tx)
			g.count()
			fixture.WantValue(g, g.ctx, between, fixture.Cell("r", "c"), "v")
		}, want: cost{"ReadRows 1": 2}},
	})
}

// locked has a client lock the row r three times, without a change.
func locked(g *guard, c *percolator.Client) {
	for range 3 {
		tx := fixture.MustBegin(g, g.ctx, c)
		fixture.Must(g, fixture.ErrOf(tx.GetForUpdate(g.ctx, fixture.Cell("r", "c"))))
		fixture.MustCommit(g, g.ctx, tx)
	}
}

// readInTurn has n transactions read the columns of a row, each with a call of its own.
func readInTurn(n int, columns ...string) func(*guard) {
	return func(g *guard) {
		for range n {
			tx := fixture.MustBegin(g, g.ctx, g.c)
			for _, col := range columns {
				g.all(tx, fixture.Cell("r", col))
			}
		}
	}
}

// A scan reads pages of 64, 128, 256 … rows. One that ends with its page cannot know that
// there are no more.
func TestRequestsOfScans(t *testing.T) {
	fixture.Long(t)
	rows := func(n int) func(*guard) {
		return func(g *guard) { g.commit(func(tx *percolator.Txn) error { return g.set(tx, rowNames(n)...) }) }
	}
	scan := func(want int) func(*guard) {
		return func(g *guard) {
			n := 0
			for _, err := range g.snapshot().Scan(g.ctx, "t", percolator.Prefix("row-"), "c") {
				fixture.Must(g, err)
				n++
			}
			if n != want {
				g.Errorf("%d entries, want %d", n, want)
			}
		}
	}
	people := func(g *guard) {
		g.commit(func(tx *percolator.Txn) error {
			for i := range 30 {
				if err := fixture.City.Set(tx, fmt.Sprint("p", i), []string{"Rome", "Bern", "Oslo"}[i%3]); err != nil {
					return err
				}
			}
			return fixture.Mail.Set(tx, "p7", "seven@example.org")
		})
	}
	index := func(name, value string, want int) func(*guard) {
		return func(g *guard) {
			n := 0
			for _, err := range g.snapshot().ScanIndex(g.ctx, "people", name, percolator.Row(value)) {
				fixture.Must(g, err)
				n++
			}
			if n != want {
				g.Errorf("%d entries, want %d", n, want)
			}
		}
	}
	pending := func(g *guard) {
		g.commit(func(tx *percolator.Txn) error {
			for _, r := range rowNames(100) {
				if err := tx.Set(fixture.Cell(r, "seen"), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	runRequestCases(t, []requestCase{
		{name: "no rows", do: scan(0), want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "10 rows", prepare: rows(10), do: scan(10), want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "63 rows", prepare: rows(63), do: scan(63), want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "64 rows", prepare: rows(64), do: scan(64), want: cost{"Oracle": 1, "ReadRows range": 2}},
		{name: "100 rows", prepare: rows(100), do: scan(100), want: cost{"Oracle": 1, "ReadRows range": 2}},
		{name: "1000 rows", prepare: rows(1000), do: scan(1000), want: cost{"Oracle": 1, "ReadRows range": 5}},
		{name: "60 ranges of rows", prepare: rows(1000), do: func(g *guard) {
			var o percolator.ScanOptions
			for i := range 60 {
				o.Rows = append(o.Rows, percolator.Row(fixture.Key(990-i*16)))
			}
			next := 990 - 59*16
			for e, err := range g.snapshot().ScanWith(g.ctx, "t", o) {
				fixture.Must(g, err)
				if e.Cell.Row != fixture.Key(next) {
					g.Errorf("%s, want %s", e.Cell, fixture.Key(next))
				}
				next += 16
			}
		}, want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "ranges of rows and columns", prepare: rows(1000), do: func(g *guard) {
			o := percolator.ScanOptions{Rows: []percolator.Range{percolator.Prefix(fixture.Key(7)), percolator.Row(fixture.Key(500))},
				Columns: []string{"seen"}, ColumnRanges: []percolator.Range{percolator.Between("a", "d"), percolator.Prefix("x")}}
			fixture.Must(g, fixture.FirstError(fixture.MustBegin(g, g.ctx, g.c).ScanWith(g.ctx, "t", o)))
		}, want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "no range of columns", do: func(g *guard) {
			fixture.Must(g, fixture.FirstError(g.snapshot().ScanWith(g.ctx, "t", percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Between("b", "a")}})))
		}, want: cost{"Oracle": 1}},
		{name: "broken off", prepare: rows(1000), do: func(g *guard) {
			for _, err := range g.snapshot().Scan(g.ctx, "t", percolator.All()) {
				fixture.Must(g, err)
				break
			}
		}, want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "one value of an index", prepare: people, do: index("city", "Rome", 10), want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "two values of an index, backwards", prepare: people, do: func(g *guard) {
			n := 0
			o := percolator.ScanOptions{Index: "city", Rows: []percolator.Range{percolator.Row("Rome"), percolator.Row("Bern")}, Reverse: true, Limit: 20}
			for _, err := range g.snapshot().ScanWith(g.ctx, "people", o) {
				fixture.Must(g, err)
				n++
			}
			if n != 20 {
				g.Errorf("%d entries, want 20", n)
			}
		}, want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "one value of a unique index", prepare: people, do: index("mail", "seven@example.org", 1),
			want: cost{"Oracle": 1, "ReadRows range": 1}},
		{name: "a search for notifications", prepare: pending, do: func(g *guard) {
			page, err := g.c.Engine().Reads.ReadPending(g.ctx, "t", percolator.All(), 1024, 0)
			fixture.Must(g, err)
			if len(page.Rows) != 101 || page.More {
				g.Errorf("%d rows, more %v", len(page.Rows), page.More)
			}
		}, want: cost{"ReadRows range": 1}},
	})
}

// Reads that arrive while others are in flight travel together: one goes out at once, the next as
// well, and all that come meanwhile go with the next request.
func TestRequestsOfConcurrentReads(t *testing.T) {
	type reads struct {
		name     string
		cells    []percolator.Cell
		snapshot bool // one for each read
		alone    bool // without batching
		want     cost
	}
	same := func(n int) (out []percolator.Cell) {
		for range n {
			out = append(out, fixture.Cell("r", "c"))
		}
		return out
	}
	t.Parallel()
	for _, rc := range []reads{
		{name: "100 rows", cells: cellsIn("c", rowNames(100)...), want: cost{"ReadRows 1": 2, "ReadRows 98": 1}},
		{name: "100 rows in as many snapshots", cells: cellsIn("c", rowNames(100)...), snapshot: true, want: cost{"ReadRows 1": 2, "ReadRows 98": 1}},
		{name: "a row, 100 times", cells: same(100), want: cost{"ReadRows 1": 3}},
		{name: "more rows than a request names", cells: cellsIn("c", rowNames(2+513)...), want: cost{"ReadRows 1": 3, "ReadRows 512": 1}},
		{name: "without batching", cells: cellsIn("c", rowNames(100)...), alone: true, want: cost{"ReadRows 1": 100}},
	} {
		t.Run(rc.name, func(t *testing.T) {
			t.Parallel()
			env := fixture.NewEnv(t, percolatortest.Configure(func(cfg *percolator.Config) { cfg.DisableBatching = rc.alone }))
			g := &guard{T: t, env: env, ctx: fixture.Context(t), c: env.Client}
			g.c.Engine().Reads.ReadWholeRowsAfter(1 << 20) // these reads name their column
			g.commit(func(tx *percolator.Txn) error { return g.set(tx, rowNames(100)...) })
			fixture.Must(t, g.c.Flush(g.ctx))
			snapshots := []*percolator.Snapshot{g.snapshot()}
			for rc.snapshot && len(snapshots) < len(rc.cells) {
				snapshots = append(snapshots, g.snapshot())
			}
			hold := percolatortest.NewHold()
			faults := env.FaultsOf(g.c)
			faults.Forget()
			faults.Handle(func(percolatortest.Request) percolatortest.Action { return hold })
			done := make(chan error, len(rc.cells))
			for i, c := range rc.cells {
				go func() {
					_, err := snapshots[i%len(snapshots)].GetMulti(g.ctx, c)
					done <- err
				}()
				if i < 2 || rc.alone { // on its way before the next one comes
					hold.Wait(t, i+1)
				}
			}
			if !rc.alone {
				fixture.Eventually(t, "all the others wait", func() bool { return g.c.Engine().Reads.Waiting() == len(rc.cells)-2 })
			}
			hold.Release()
			for range rc.cells {
				fixture.Must(t, <-done)
			}
			if got := costOf(faults.Requests()); got.String() != rc.want.String() {
				t.Errorf("sent %v\nwant %v", got, rc.want)
			}
		})
	}
}
