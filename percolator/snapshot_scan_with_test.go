package percolator_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// found lists what a scan finds, as row.column=value.
func found(t testing.TB, stream iter.Seq2[percolator.Entry, error]) string {
	t.Helper()
	var b strings.Builder
	for e, err := range stream {
		fixture.Must(t, err)
		fmt.Fprintf(&b, "%s.%s=%s ", e.Cell.Row, e.Cell.Column, e.Value)
	}
	return b.String()
}

func TestScanWith(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c1", "v", "a", "c2", "v", "a", "d", "v", "b", "c1", "v", "b", "e", "v", "c", "c2", "v", "d", "d", "v")
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("a", "c3"), []byte("own")), tx.Delete(fixture.Cell("b", "c1")), tx.Set(fixture.Cell("d", "d"), []byte("own")),
		tx.Set(fixture.Cell("d", "z"), []byte("own"))))
	for name, c := range map[string]struct {
		o        percolator.ScanOptions
		snapshot string
		own      string
	}{
		"everything": {percolator.ScanOptions{}, "a.c1=v a.c2=v a.d=v b.c1=v b.e=v c.c2=v d.d=v ", "a.c1=v a.c2=v a.c3=own a.d=v b.e=v c.c2=v d.d=own d.z=own "},
		"a prefix of columns": {percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Prefix("c")}},
			"a.c1=v a.c2=v b.c1=v c.c2=v ", "a.c1=v a.c2=v a.c3=own c.c2=v "},
		"a range of a row's columns": {percolator.ScanOptions{Rows: []percolator.Range{percolator.Row("a")}, ColumnRanges: []percolator.Range{percolator.Between("c2", "d")}},
			"a.c2=v ", "a.c2=v a.c3=own "},
		"names and ranges": {percolator.ScanOptions{Columns: []string{"e", "c1"}, ColumnRanges: []percolator.Range{percolator.Row("d"), percolator.Between("c", "c2")}},
			"a.c1=v a.d=v b.c1=v b.e=v d.d=v ", "a.c1=v a.d=v b.e=v d.d=own "},
		"rows in any order": {percolator.ScanOptions{Rows: []percolator.Range{percolator.Row("d"), percolator.Between("a", "c"), percolator.Prefix("b"), percolator.Row("d")}},
			"a.c1=v a.c2=v a.d=v b.c1=v b.e=v d.d=v ", "a.c1=v a.c2=v a.c3=own a.d=v b.e=v d.d=own d.z=own "},
		"all columns by a range":  {percolator.ScanOptions{Rows: []percolator.Range{percolator.Row("d")}, ColumnRanges: []percolator.Range{percolator.All()}}, "d.d=v ", "d.d=own d.z=own "},
		"an empty range of rows":  {percolator.ScanOptions{Rows: []percolator.Range{percolator.Between("b", "a")}}, "", ""},
		"an empty one of columns": {percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Between("c", "c")}}, "", ""},
		"only reserved columns":   {percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Prefix("\x00"), percolator.Between("", "\x01")}}, "", ""},
	} {
		if got := found(t, snap.ScanWith(ctx, "t", c.o)); got != c.snapshot {
			t.Errorf("%s: %s, want %s", name, got, c.snapshot)
		}
		if got := found(t, tx.ScanWith(ctx, "t", c.o)); got != c.own {
			t.Errorf("%s, in a transaction: %s, want %s", name, got, c.own)
		}
	}

	scan := snap.ScanWith(ctx, "t", percolator.ScanOptions{Columns: []string{"d"}, Rows: []percolator.Range{percolator.Row("d")}})
	if first, second := found(t, scan), found(t, scan); first != "d.d=v " || second != first {
		t.Errorf("read once %s, and again %s", first, second)
	}
}

// A caller may change its slices while the scan that it called for goes on.
func TestScanWithKeepsNothingOfTheCaller(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c", "v", "b", "d", "v")
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for _, ranges := range [][]percolator.Range{nil, {percolator.Row("c")}} {
		o := percolator.ScanOptions{Rows: []percolator.Range{percolator.Row("b"), percolator.Row("a")}, Columns: []string{"c"}, ColumnRanges: slices.Clone(ranges)}
		scan := snap.ScanWith(ctx, "t", o)
		if o.Rows[0] != percolator.Row("b") {
			t.Error("the caller's ranges were sorted")
		}
		o.Rows[0], o.Rows[1], o.Columns[0] = percolator.Row("x"), percolator.Row("y"), "x"
		if got := found(t, scan); got != "a.c=v " {
			t.Errorf("found %s", got)
		}
	}
}

// What exceeds a limit is refused before anything is sent; what is at the limit, the store takes.
func TestScanWithLimits(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "r", "c050", "v", "s", "c050", "v")
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	columns := func(n, bytes int) (out []percolator.Range) {
		for i := range n {
			out = append(out, percolator.Row(fmt.Sprintf("c%03d", i)+strings.Repeat("x", bytes)))
		}
		return out
	}
	rows := func(n int) (out []percolator.Range) {
		for i := range n {
			out = append(out, percolator.Row(fmt.Sprintf("a%07d", i)))
		}
		return append(out, percolator.Row("r"))
	}
	long := strings.Repeat("y", percolator.MaxColumnBytes)
	env.FaultsOf(env.Client).Forget()
	for name, c := range map[string]struct {
		o        percolator.ScanOptions
		want     error
		requests int
	}{
		"as many ranges as may be":       {percolator.ScanOptions{ColumnRanges: columns(percolator.MaxColumnRanges, 0)}, nil, 1},
		"one more":                       {percolator.ScanOptions{ColumnRanges: columns(percolator.MaxColumnRanges+1, 0)}, percolator.ErrTooLarge, 0},
		"one more, as a name":            {percolator.ScanOptions{Columns: []string{"z"}, ColumnRanges: columns(percolator.MaxColumnRanges, 0)}, percolator.ErrTooLarge, 0},
		"many that overlap":              {percolator.ScanOptions{ColumnRanges: append(columns(1000, 0), percolator.Prefix("c"))}, nil, 1},
		"as many bytes as may be":        {percolator.ScanOptions{ColumnRanges: columns(percolator.MaxColumnRanges, 10)}, nil, 1},
		"more bytes":                     {percolator.ScanOptions{ColumnRanges: columns(percolator.MaxColumnRanges, 12)}, percolator.ErrTooLarge, 0},
		"the longest name":               {percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Row(long), percolator.Row("c050")}}, nil, 1},
		"two of them":                    {percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Row(long), percolator.Row("x" + long[1:])}}, percolator.ErrTooLarge, 0},
		"a reserved name":                {percolator.ScanOptions{Columns: []string{"\x00ack"}, ColumnRanges: columns(1, 0)}, percolator.ErrInvalidArgument, 0},
		"many ranges of rows":            {percolator.ScanOptions{Rows: rows(511), Columns: []string{"c050"}}, nil, 1},
		"more than a request names":      {percolator.ScanOptions{Rows: rows(2 * 512), Columns: []string{"c050"}}, nil, 3},
		"a range of a table without any": {percolator.ScanOptions{Rows: rows(1), ColumnRanges: []percolator.Range{percolator.Row("none")}}, nil, 1},
	} {
		env.FaultsOf(env.Client).Forget()
		err := fixture.FirstError(snap.ScanWith(ctx, "t", c.o))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if got := costOf(env.FaultsOf(env.Client).Requests())["ReadRows range"]; got != c.requests {
			t.Errorf("%s: %d requests, want %d", name, got, c.requests)
		}
	}
	fixture.WantErr(t, fixture.FirstError(snap.ScanWith(ctx, "none", percolator.ScanOptions{})), percolator.ErrSchemaMismatch)
	blind := fixture.MustBegin(t, ctx, env.Client, percolator.Blind())
	fixture.WantErr(t, fixture.FirstError(blind.ScanWith(ctx, "t", percolator.ScanOptions{})), percolator.ErrInvalidArgument)
	fixture.Must(t, blind.Rollback(ctx))
	fixture.WantErr(t, fixture.FirstError(blind.ScanWith(ctx, "t", percolator.ScanOptions{})), percolator.ErrTxnDone)
}

// Of a row with 10,000 columns a range brings its own cells, and nothing of the others travels.
func TestColumnRangeOfAWideRow(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	name := func(i int) string { return fmt.Sprintf("c%05d", i) }
	mut := bigtable.NewMutation() // as a transaction of long ago has left them
	for i := range 10_000 {
		mut.Set("data", name(i), 1000, fmt.Append(nil, i))
		mut.Set("write", name(i), 2000, append(binary.BigEndian.AppendUint64(nil, 1), 'P'))
	}
	fixture.Must(t, env.Store().Open("t").Apply(ctx, "wide", mut))
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	ranges := []percolator.Range{percolator.Between(name(7000), name(7010)), percolator.Prefix("c0999"), percolator.Between(name(7005), name(7012))}
	env.FaultsOf(env.Client).Forget()
	next := 7000
	for e, err := range snap.ScanWith(ctx, "t", percolator.ScanOptions{Rows: []percolator.Range{percolator.Row("wide")}, ColumnRanges: ranges}) {
		fixture.Must(t, err)
		if e.Cell.Column != name(next) || string(e.Value) != fmt.Sprint(next) {
			t.Errorf("%s = %s, want %s", e.Cell, e.Value, name(next))
		}
		if next++; next == 7012 {
			next = 9990
		}
	}
	if next != 10_000 {
		t.Errorf("it ends before %s", name(next))
	}
	if got := costOf(env.FaultsOf(env.Client).Requests()); got.String() != "1 × ReadRows range" {
		t.Errorf("sent %v", got)
	}
	row, err := env.Client.Engine().Store.ReadRow(ctx, "t", "wide", store.NewestIn(catalog.Union(ranges...), snap.StartTimestamp(), 1))
	fixture.Must(t, err)
	if len(row.Items) != 2*22 { // a record and a value each
		t.Errorf("%d cells travelled", len(row.Items))
	}
}

// Scans of ranges go on where a request was cut off, across the bounds of tablets: each row comes
// once, in order, and what lies between the ranges is not paid for.
func TestScanWithOverTablets(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	const rows = 400
	d := &emulator.Disks{Reach: 15 * fixture.FilledRow}
	env := fixture.NewEnv(t, fixture.OnDisks(d))
	fixture.Fill(t, ctx, env, "t", rows)
	var want []string
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := 0; i < rows; i += 7 {
		fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "rare/x"), []byte("v")))
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, env.Client.Flush(ctx))
	ranges := []percolator.Range{percolator.Between(fixture.Key(330), fixture.Key(360)), percolator.Between(fixture.Key(50), fixture.Key(150)), percolator.Row(fixture.Key(210)),
		percolator.Between(fixture.Key(140), fixture.Key(180)), percolator.Row(fixture.Key(391))}
	for i := 0; i < rows; i += 7 {
		if i >= 50 && i < 180 || i == 210 || i >= 330 && i < 360 {
			want = append(want, fixture.Key(i))
		}
	}
	snap, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	before := d.Passed("t")
	var got []string
	for e, err := range snap.ScanWith(ctx, "t", percolator.ScanOptions{Rows: ranges, ColumnRanges: []percolator.Range{percolator.Prefix("rare/")}}) {
		fixture.Must(t, err)
		got = append(got, e.Cell.Row)
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if passed := (d.Passed("t") - before) / fixture.FilledRow; passed > 320 {
		t.Errorf("passed over %d rows, 162 of which are in the ranges", passed)
	}
}

// LockReads locks what the scan hands out: a writer of another column of the row, outside of the
// ranges, is no conflict.
func TestLockReadsOfColumnRanges(t *testing.T) {
	t.Parallel()
	for column, want := range map[string]error{"a1": percolator.ErrConflict, "b1": nil} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		fixture.Put(t, ctx, env.Client, "r", "a1", "v", "r", "b1", "v")
		tx := fixture.MustBegin(t, ctx, env.Client, percolator.LockReads())
		if got := found(t, tx.ScanWith(ctx, "t", percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Prefix("a")}})); got != "r.a1=v " {
			t.Errorf("found %s", got)
		}
		fixture.Must(t, tx.Set(fixture.Cell("other", "c"), nil))
		fixture.Put(t, ctx, env.Client, "r", column, "new")
		if _, err := tx.Commit(ctx); !errors.Is(err, want) {
			t.Errorf("beside a write of %s: %v, want %v", column, err, want)
		}
	}
}

// A living lock keeps a scan waiting if its column is asked for, and only then (I15).
func TestScanWithMeetsLivingLocks(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t, percolatortest.Configure(longTTL))
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "r", "a", "old", "r", "b", "old")
	writer := env.NewClient()
	hold := percolatortest.NewHold()
	env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			return hold
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, ctx, writer)
	fixture.Must(t, tx.Set(fixture.Cell("r", "b"), []byte("new")))
	committed := make(chan error, 1)
	go func() { committed <- fixture.ErrOf(tx.Commit(ctx)) }()
	hold.Wait(t, 1)
	snap, err := env.Client.Snapshot(ctx) // behind the commit timestamp
	fixture.Must(t, err)
	scan := func(columns percolator.Range) iter.Seq2[percolator.Entry, error] {
		return snap.ScanWith(ctx, "t", percolator.ScanOptions{Rows: []percolator.Range{percolator.Row("q"), percolator.Row("r")}, ColumnRanges: []percolator.Range{columns}})
	}
	if got := found(t, scan(percolator.Between("", "b"))); got != "r.a=old " {
		t.Errorf("found %s", got)
	}
	got := make(chan string, 1)
	go func() {
		text := ""
		for e, err := range scan(percolator.Between("", "c")) {
			text += fmt.Sprintf("%s=%s %v ", e.Cell.Column, e.Value, err)
		}
		got <- text
	}()
	fixture.Eventually(t, "the scan waits, or answers", func() bool { return len(got) > 0 || env.Client.Engine().Store.Count.LockWaiting.Load() > 0 })
	hold.Release()
	if text := <-got; text != "a=old <nil> b=new <nil> " {
		t.Errorf("found %s", text)
	}
	fixture.Must(t, <-committed)
}

// A typed column decodes all that the options select, and names the cell that it cannot decode.
func TestTypedScanWith(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	count := percolator.Int64("t", "n")
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, errors.Join(count.Set(tx, "r", 1), percolator.Int64("t", "n/1").Set(tx, "r", 2), percolator.Int64("t", "n/2").Set(tx, "s", 3),
		tx.Set(fixture.Cell("z", "n/3"), []byte("no number"))))
	list := func(o percolator.ScanOptions) (string, error) {
		var b strings.Builder
		for e, err := range count.ScanWith(ctx, tx, o) {
			if err != nil {
				return b.String(), err
			}
			fmt.Fprintf(&b, "%s.%s=%d ", e.Cell.Row, e.Cell.Column, e.Value)
		}
		return b.String(), nil
	}
	if got, err := list(percolator.ScanOptions{}); err != nil || got != "r.n=1 " {
		t.Errorf("the column: %s, %v", got, err)
	}
	if got, err := list(percolator.ScanOptions{Rows: []percolator.Range{percolator.Row("s"), percolator.Row("r")}, ColumnRanges: []percolator.Range{percolator.Prefix("n/")}}); err != nil || got != "r.n/1=2 s.n/2=3 " {
		t.Errorf("a range of columns: %s, %v", got, err)
	}
	got, err := list(percolator.ScanOptions{ColumnRanges: []percolator.Range{percolator.Prefix("n")}})
	if !errors.Is(err, percolator.ErrCorrupt) || !strings.Contains(err.Error(), `"n/3"`) || got != "r.n=1 r.n/1=2 s.n/2=3 " {
		t.Errorf("%s, %v", got, err)
	}
}
