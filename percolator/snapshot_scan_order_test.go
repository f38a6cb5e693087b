package percolator_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	scans "github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func TestReverseAndLimit(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c1", "v", "a", "c2", "v", "b", "c1", "v", "c", "d", "v", "d", "c1", "v")
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("a", "c0"), []byte("own")), tx.Delete(fixture.Cell("b", "c1")), tx.Set(fixture.Cell("bb", "c1"), []byte("own")),
		tx.Set(fixture.Cell("e", "c2"), []byte("own")), tx.Set(fixture.Cell("e", "c1"), []byte("own"))))
	two := []percolator.Range{percolator.Row("d"), percolator.Between("a", "c")}
	for name, c := range map[string]struct {
		o        percolator.ScanOptions
		snapshot string
		own      string
	}{
		"reverse":  {percolator.ScanOptions{Reverse: true}, "d.c1=v c.d=v b.c1=v a.c1=v a.c2=v ", "e.c1=own e.c2=own d.c1=v c.d=v bb.c1=own a.c0=own a.c1=v a.c2=v "},
		"limit":    {percolator.ScanOptions{Limit: 2}, "a.c1=v a.c2=v b.c1=v ", "a.c0=own a.c1=v a.c2=v bb.c1=own "},
		"both":     {percolator.ScanOptions{Reverse: true, Limit: 3}, "d.c1=v c.d=v b.c1=v ", "e.c1=own e.c2=own d.c1=v c.d=v "},
		"ranges":   {percolator.ScanOptions{Reverse: true, Rows: two}, "d.c1=v b.c1=v a.c1=v a.c2=v ", "d.c1=v bb.c1=own a.c0=own a.c1=v a.c2=v "},
		"a column": {percolator.ScanOptions{Reverse: true, Columns: []string{"c1"}, Limit: 2}, "d.c1=v b.c1=v ", "e.c1=own d.c1=v "},
		"a range of columns": {percolator.ScanOptions{Reverse: true, ColumnRanges: []percolator.Range{percolator.Prefix("c")}, Limit: 3},
			"d.c1=v b.c1=v a.c1=v a.c2=v ", "e.c1=own e.c2=own d.c1=v bb.c1=own "},
		"more than there are": {percolator.ScanOptions{Rows: two, Limit: 100}, "a.c1=v a.c2=v b.c1=v d.c1=v ", "a.c0=own a.c1=v a.c2=v bb.c1=own d.c1=v "},
		"nothing":             {percolator.ScanOptions{Reverse: true, Limit: 1, Rows: []percolator.Range{percolator.Prefix("x")}}, "", ""},
	} {
		if got := found(t, snap.ScanWith(ctx, "t", c.o)); got != c.snapshot {
			t.Errorf("%s: %s, want %s", name, got, c.snapshot)
		}
		if got := found(t, tx.ScanWith(ctx, "t", c.o)); got != c.own {
			t.Errorf("%s, in a transaction: %s, want %s", name, got, c.own)
		}
	}
	for _, r := range []percolator.Scanner{snap, tx} {
		fixture.WantErr(t, fixture.FirstError(r.ScanWith(ctx, "t", percolator.ScanOptions{Limit: -1})), percolator.ErrInvalidArgument)
		fixture.WantErr(t, fixture.FirstError(r.ScanWith(ctx, "people", percolator.ScanOptions{Index: "city", Limit: -1})), percolator.ErrInvalidArgument)
		fixture.WantErr(t, fixture.FirstError(r.ScanWith(ctx, "people", percolator.ScanOptions{Index: "city", Columns: []string{"city"}})), percolator.ErrInvalidArgument)
		fixture.WantErr(t, fixture.FirstError(r.ScanWith(ctx, "people", percolator.ScanOptions{Index: "none"})), percolator.ErrSchemaMismatch)
	}
	for range tx.ScanWith(ctx, "t", percolator.ScanOptions{Reverse: true}) {
		break // in the middle of its own row
	}
}

func TestIndexInReverseAndToALimit(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return errors.Join(fixture.City.Set(tx, "ann", "Rome"), fixture.City.Set(tx, "bob", "Bern"), fixture.City.Set(tx, "cid", "Rome"), fixture.City.Set(tx, "dan", "Oslo"))
	}))
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(fixture.City.Delete(tx, "cid"), fixture.City.Set(tx, "bob", "Zug"), fixture.City.Set(tx, "eve", "Oslo")))
	list := func(r percolator.Scanner, o percolator.ScanOptions) (out string) {
		o.Index = "city"
		for e, err := range fixture.City.ScanWith(ctx, r, o) {
			fixture.Must(t, err)
			out += e.Value + ":" + e.Cell.Row + " "
		}
		return out
	}
	rome, err := fixture.City.Exactly("Rome")
	fixture.Must(t, err)
	for name, c := range map[string]struct {
		o             percolator.ScanOptions
		snapshot, own string
	}{
		"reverse":         {percolator.ScanOptions{Reverse: true}, "Rome:cid Rome:ann Oslo:dan Bern:bob ", "Zug:bob Rome:ann Oslo:eve Oslo:dan "},
		"limit":           {percolator.ScanOptions{Limit: 2}, "Bern:bob Oslo:dan ", "Oslo:dan Oslo:eve "},
		"both":            {percolator.ScanOptions{Reverse: true, Limit: 2}, "Rome:cid Rome:ann ", "Zug:bob Rome:ann "},
		"one value":       {percolator.ScanOptions{Rows: []percolator.Range{rome}, Reverse: true}, "Rome:cid Rome:ann ", "Rome:ann "},
		"a prefix":        {percolator.ScanOptions{Rows: []percolator.Range{percolator.Prefix("O")}, Reverse: true, Limit: 1}, "Oslo:dan ", "Oslo:eve "},
		"several values":  {percolator.ScanOptions{Rows: []percolator.Range{rome, percolator.Between("B", "C"), rome}}, "Bern:bob Rome:ann Rome:cid ", "Rome:ann "},
		"some of several": {percolator.ScanOptions{Rows: []percolator.Range{percolator.Prefix("O"), percolator.Between("Z", "")}, Reverse: true, Limit: 2}, "Oslo:dan ", "Zug:bob Oslo:eve "},
		"no value":        {percolator.ScanOptions{Rows: []percolator.Range{percolator.Between("P", "P")}}, "", ""},
		"up to one value": {percolator.ScanOptions{Rows: []percolator.Range{percolator.Between("", "P")}, Reverse: true}, "Oslo:dan Bern:bob ", "Oslo:eve Oslo:dan "},
	} {
		if got := list(snap, c.o); got != c.snapshot {
			t.Errorf("%s: %s, want %s", name, got, c.snapshot)
		}
		if got := list(tx, c.o); got != c.own {
			t.Errorf("%s, in a transaction: %s, want %s", name, got, c.own)
		}
	}
}

// Whatever is stored, buffered and asked for, a scan gives what a sorted list of all cells gives.
func TestScansAgainstAModel(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	row := rapid.SampledFrom([]string{"a", "a\x00", "ab", "b", "ba", "c", "d", "\xff"})
	column := rapid.SampledFrom([]string{"c", "d", "e"})
	stored := map[percolator.Cell]string{}
	rapid.Check(t, func(rt *rapid.T) {
		tx := fixture.MustBegin(t, ctx, env.Client)
		all := maps.Clone(stored)
		for range rapid.IntRange(0, 6).Draw(rt, "writes") {
			cell := fixture.Cell(row.Draw(rt, "row"), column.Draw(rt, "column"))
			if rapid.Bool().Draw(rt, "delete") {
				fixture.Must(t, tx.Delete(cell))
				delete(all, cell)
			} else {
				all[cell] = rapid.SampledFrom([]string{"", "v", "w"}).Draw(rt, "value")
				fixture.Must(t, tx.Set(cell, []byte(all[cell])))
			}
		}
		o := percolator.ScanOptions{Reverse: rapid.Bool().Draw(rt, "reverse"), Limit: rapid.IntRange(0, 4).Draw(rt, "limit"), Columns: rapid.SliceOfN(column, 0, 2).Draw(rt, "columns")}
		for range rapid.IntRange(0, 2).Draw(rt, "ranges") {
			from := row.Draw(rt, "from")
			o.Rows = append(o.Rows, rapid.SampledFrom([]percolator.Range{percolator.Row(from), percolator.Prefix(from), percolator.Between(from, ""), percolator.Between(from, row.Draw(rt, "to"))}).Draw(rt, "range"))
		}
		if got, want := found(t, tx.ScanWith(ctx, "t", o)), scanned(all, o); got != want {
			rt.Fatalf("%+v: %q, want %q", o, got, want)
		}
		if rapid.IntRange(0, 2).Draw(rt, "commit") == 0 {
			fixture.MustCommit(t, ctx, tx)
			stored = all
		}
		snap, err := env.Client.Snapshot(ctx)
		fixture.Must(t, err)
		if got, want := found(t, snap.ScanWith(ctx, "t", o)), scanned(stored, o); got != want {
			rt.Fatalf("a snapshot, %+v: %q, want %q", o, got, want)
		}
	})
}

// scanned is what found says of a scan of these cells.
func scanned(all map[percolator.Cell]string, o percolator.ScanOptions) string {
	rows, columns := scans.SelectedRows(o), scans.SelectedColumns(o)
	cells := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(c percolator.Cell) bool { return !rows.Contain(c.Row) || !columns.Contain(c.Column) })
	slices.SortFunc(cells, func(a, b percolator.Cell) int {
		byRow := strings.Compare(a.Row, b.Row)
		if o.Reverse {
			byRow = -byRow
		}
		return cmp.Or(byRow, strings.Compare(a.Column, b.Column))
	})
	out, seen := "", map[string]bool{}
	for _, c := range cells {
		if seen[c.Row] = true; o.Limit > 0 && len(seen) > o.Limit {
			break
		}
		out += fmt.Sprintf("%s.%s=%s ", c.Row, c.Column, all[c])
	}
	return out
}

// A limit ends requests: no row is read beyond it, unless rows turn out to be deleted. Then as many
// more are read as are missing, or as have been deleted, whatever is more.
func TestLimitBoundsWhatIsRead(t *testing.T) {
	t.Parallel()
	const rows = 600
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Fill(t, ctx, env, "t", rows)
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := range rows {
		if i < 100 || i%10 == 9 {
			fixture.Must(t, tx.Delete(fixture.Cell(fixture.Key(i), "clean")))
		}
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, env.Client.Flush(ctx))
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	between := func(from, to int) percolator.Range { return percolator.Between(fixture.Key(from), fixture.Key(to)) }
	own := fixture.MustBegin(t, ctx, env.Client)
	for i := 200; i < 210; i++ {
		fixture.Must(t, own.Delete(fixture.Cell(fixture.Key(i), "clean")))
	}
	for name, c := range map[string]struct {
		r        percolator.Scanner
		o        percolator.ScanOptions
		rows     int // that are given
		read     int64
		requests int
	}{
		"one":                       {snap, percolator.ScanOptions{Limit: 1, Rows: []percolator.Range{between(120, rows)}}, 1, 1, 1},
		"seven":                     {snap, percolator.ScanOptions{Limit: 7, Rows: []percolator.Range{between(120, 128), between(130, 138)}}, 7, 7, 1},
		"down":                      {snap, percolator.ScanOptions{Limit: 7, Reverse: true, Rows: []percolator.Range{between(0, 589)}}, 7, 7, 1},
		"more than a first page":    {snap, percolator.ScanOptions{Limit: 150, Columns: []string{"clean"}, Rows: []percolator.Range{between(99, rows)}}, 150, 150 + 15 + 17, 3},
		"deleted at first":          {snap, percolator.ScanOptions{Limit: 1}, 1, 128, 8},   // 1, 1, 2, 4 … 64 rows
		"ten, deleted at first":     {snap, percolator.ScanOptions{Limit: 10}, 10, 160, 5}, // 10, 10, 20, 40, 80
		"no limit":                  {snap, percolator.ScanOptions{}, rows - 150, rows, 4},
		"own":                       {own, percolator.ScanOptions{Limit: 5, Rows: []percolator.Range{between(120, rows)}}, 5, 5, 1},
		"hidden by own writes":      {own, percolator.ScanOptions{Limit: 5, Rows: []percolator.Range{between(200, rows)}}, 5, 20, 3}, // 5, 5, 10
		"hidden by own writes, two": {own, percolator.ScanOptions{Limit: 2, Rows: []percolator.Range{between(208, 212)}}, 2, 4, 3},
	} {
		env.FaultsOf(env.Client).Forget()
		before := env.Client.Stats().RowsRead
		seen := map[string]bool{}
		for e, err := range c.r.ScanWith(ctx, "t", c.o) {
			fixture.Must(t, err)
			seen[e.Cell.Row] = true
		}
		requests := costOf(env.FaultsOf(env.Client).Requests())["ReadRows range"]
		if read := env.Client.Stats().RowsRead - before; len(seen) != c.rows || read != c.read || requests != c.requests {
			t.Errorf("%s: %d rows of %d that were read with %d requests; want %d of %d with %d", name, len(seen), read, requests, c.rows, c.read, c.requests)
		}
	}
}

// Scans from the last row to the first go on where a request was cut off, across the bounds of
// tablets: each row comes once, in order, and with a limit nothing beyond it is paid for.
func TestReverseScanOverTablets(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	const rows = 400
	d := &emulator.Disks{Reach: 15 * fixture.FilledRow}
	env := fixture.NewEnv(t, fixture.OnDisks(d))
	fixture.Fill(t, ctx, env, "t", rows)
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := 0; i < rows; i += 7 {
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "rare/x"), []byte("v")))
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, env.Client.Flush(ctx))
	o := percolator.ScanOptions{Reverse: true, ColumnRanges: []percolator.Range{percolator.Prefix("rare/")}, Rows: []percolator.Range{
		percolator.Between(fixture.Key(330), fixture.Key(360)), percolator.Between(fixture.Key(50), fixture.Key(150)), percolator.Row(fixture.Key(210)), percolator.Between(fixture.Key(140), fixture.Key(180))}}
	var want []string
	for i := rows; i >= 0; i-- {
		if i%7 == 0 && (i >= 50 && i < 180 || i == 210 || i >= 330 && i < 360) {
			want = append(want, fixture.Key(i))
		}
	}
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	list := func(o percolator.ScanOptions) (got []string) {
		for e, err := range snap.ScanWith(ctx, "t", o) {
			fixture.Must(t, err)
			got = append(got, e.Cell.Row)
		}
		return got
	}
	before := d.Passed("t")
	if got := list(o); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if passed := (d.Passed("t") - before) / fixture.FilledRow; passed > 320 {
		t.Errorf("passed over %d rows, 161 of which are in the ranges", passed)
	}
	before, o.Limit = d.Passed("t"), 1
	if got := list(o); !slices.Equal(got, want[:1]) {
		t.Errorf("found %q, want %q", got, want[:1])
	}
	if passed := (d.Passed("t") - before) / fixture.FilledRow; passed > 15 {
		t.Errorf("passed over %d rows to the first", passed)
	}
}

// A scan in reverse meets locks as one forward does: it rolls forward what is committed, and waits
// for who lives (I15).
func TestReverseScanMeetsLocks(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c", "old", "b", "c", "old", "c", "c", "old", "d", "c", "old")
	fixture.CrashAfter(t, env, fixture.IsCommit, "a", "c") // committed: row c has its lock still
	fixture.CrashAfter(t, env, nil, "b", "d")              // not committed
	env.Clock.Advance(fixture.LockTTL)
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	if got := found(t, snap.ScanWith(ctx, "t", percolator.ScanOptions{Reverse: true})); got != "d.c=old c.c=crashed b.c=old a.c=crashed " {
		t.Errorf("found %s", got)
	}
}

// A limit keeps a scan from locks behind it, and LockReads from locking what it does not give.
func TestLimitKeepsFromWhatIsBehind(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t, percolatortest.Configure(longTTL))
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c", "v", "b", "c", "v", "x", "c", "v")
	writer := env.NewClient()
	hold := percolatortest.NewHold()
	env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			return hold
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, ctx, writer)
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("new")))
	committed := make(chan error, 1)
	go func() { committed <- fixture.ErrOf(tx.Commit(ctx)) }()
	hold.Wait(t, 1)
	reader := fixture.MustBegin(t, ctx, env.Client, percolator.LockReads())
	for _, reverse := range []bool{false, true} {
		want := map[bool]string{false: "a.c=v ", true: "x.c=v "}[reverse]
		if got := found(t, reader.ScanWith(ctx, "t", percolator.ScanOptions{Limit: 1, Reverse: reverse})); got != want {
			t.Errorf("found %s, want %s", got, want)
		}
	}
	hold.Release()
	fixture.Must(t, <-committed)
	fixture.MustCommit(t, ctx, reader) // it has not locked b
}
