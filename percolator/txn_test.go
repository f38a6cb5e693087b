package percolator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What cannot be written is refused when it is buffered, with the right sentinel, and the
// transaction goes on.
func TestRefusedArgumentsLeaveTheTransactionUsable(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		cell percolator.Cell
		want error
	}{
		"no row":                 {fixture.Cell("", "c"), percolator.ErrInvalidArgument},
		"no column":              {fixture.Cell("r", ""), percolator.ErrInvalidArgument},
		"0x00 in the column":     {fixture.Cell("r", "a\x00b"), percolator.ErrInvalidArgument},
		"a reserved column":      {fixture.Cell("r", "\x00ack\x00O\x00seen"), percolator.ErrInvalidArgument},
		"a long row":             {fixture.Cell(long(4097), "c"), percolator.ErrTooLarge},
		"a long column":          {fixture.Cell("r", long(2049)), percolator.ErrTooLarge},
		"an unknown table":       {percolator.Cell{Table: "x", Row: "r", Column: "c"}, percolator.ErrSchemaMismatch},
		"no table":               {percolator.Cell{Row: "r", Column: "c"}, percolator.ErrSchemaMismatch},
		"the table of an index":  {percolator.Cell{Table: "people.mail", Row: "r", Column: "row"}, percolator.ErrSchemaMismatch},
		"the meta table":         {percolator.Cell{Table: "percolator_meta", Row: "meta", Column: "schema"}, percolator.ErrSchemaMismatch},
		"a weak column":          {fixture.Cell("r", "poke"), percolator.ErrInvalidArgument},
		"a long row, no column":  {fixture.Cell(long(5000), ""), percolator.ErrTooLarge},
		"an invalid UTF-8 table": {percolator.Cell{Table: "\xff", Row: "r", Column: "c"}, percolator.ErrSchemaMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.WantErr(t, tx.Set(c.cell, []byte("v")), c.want)
			fixture.WantErr(t, tx.Insert(c.cell, []byte("v")), c.want)
			fixture.WantErr(t, tx.Delete(c.cell), c.want)
			_, err := tx.GetForUpdate(ctx, c.cell)
			fixture.WantErr(t, err, c.want)
			if c.cell.Column != "poke" {
				_, err = tx.Get(ctx, c.cell)
				fixture.WantErr(t, err, c.want)
				_, err = tx.GetMulti(ctx, fixture.Cell("r", "c"), c.cell)
				fixture.WantErr(t, err, c.want)
				fixture.WantErr(t, tx.Notify(c.cell), c.want)
			}
		})
	}
	fixture.WantErr(t, tx.Notify(fixture.Cell("r", "c")), percolator.ErrInvalidArgument)
	fixture.WantErr(t, tx.Notify(fixture.Cell("r", "seen")), percolator.ErrInvalidArgument)
	fixture.WantErr(t, tx.Set(fixture.Cell("r", "c"), make([]byte, percolator.MaxValueBytes+1)), percolator.ErrTooLarge)

	fixture.Must(t, tx.Set(fixture.Cell(long(4096), long(2048)), []byte("at the limits")))
	fixture.Must(t, tx.Set(fixture.Cell("\x00\xff", "\xff.*\n"), nil))
	fixture.Must(t, tx.Notify(fixture.Cell("r", "poke")))
	fixture.MustCommit(t, ctx, tx)
	fixture.WantNow(t, ctx, env.Client, fixture.Cell(long(4096), long(2048)), "at the limits")
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	if v, err := s.Get(ctx, fixture.Cell("\x00\xff", "\xff.*\n")); err != nil || v == nil || len(v) != 0 {
		t.Errorf("an empty value came back as %q, %v", v, err)
	}
	fixture.WantErr(t, fixture.ErrOf(s.Get(ctx, fixture.Cell("r", "c"))), percolator.ErrNotFound)
}

func TestColumnsInARowAreLimited(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := range percolator.MaxColumnsPerRow + 1 {
		fixture.Must(t, tx.Set(fixture.Cell("r", fmt.Sprint(i)), nil))
	}
	env.FaultsOf(env.Client).Forget()
	_, err := tx.Commit(ctx)
	fixture.WantErr(t, err, percolator.ErrTooLarge)
	if n := len(env.FaultsOf(env.Client).Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A row of many columns is prewritten by one request, whose predicate spans them, and committed by
// one.
func TestWideRowCommitsAtomically(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	const n = 20
	name := func(i int) string { return strings.Repeat("column.", 40) + fmt.Sprint(i) }
	for i := range n {
		fixture.Must(t, tx.Set(fixture.Cell("r", name(i)), fmt.Append(nil, i)))
	}
	env.FaultsOf(env.Client).Forget()
	fixture.MustCommit(t, ctx, tx)
	prewrites, commits := 0, 0
	for _, r := range env.FaultsOf(env.Client).Requests() {
		if fixture.IsPrewrite(r) {
			prewrites++
		}
		if fixture.IsCommit(r) {
			commits++
		}
	}
	if prewrites != 1 || commits != 1 {
		t.Errorf("%d prewrites and %d commits, want one and one", prewrites, commits)
	}
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	var cells []percolator.Cell
	for i := range n {
		cells = append(cells, fixture.Cell("r", name(i)))
	}
	values, err := s.GetMulti(ctx, cells...)
	fixture.Must(t, err)
	for i, v := range values {
		if string(v) != fmt.Sprint(i) {
			t.Fatalf("column %d is %q", i, v)
		}
	}
}

// What stirs between the columns of a wide row, in a column that is not written, is no conflict; in
// one that is, it is.
func TestWideRowConflictsOnItsOwnColumnsOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		column   string
		conflict bool
	}{{"c05x", false}, {"c05", true}} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		tx := fixture.MustBegin(t, ctx, env.Client)
		for i := range 20 {
			fixture.Must(t, tx.Set(fixture.Cell("r", fmt.Sprintf("c%02d", i)), []byte("ours")))
		}
		fixture.Put(t, ctx, env.NewClient(), "r", tc.column, "theirs")
		_, err := tx.Commit(ctx)
		if !tc.conflict {
			fixture.Must(t, err)
			fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c05"), "ours")
			continue
		}
		fixture.WantErr(t, err, percolator.ErrConflict)
		var conflict *percolator.ConflictError
		if !errors.As(err, &conflict) || conflict.Cell != fixture.Cell("r", tc.column) {
			t.Errorf("%v, want a conflict on column %s", err, tc.column)
		}
	}
}

// Every method of a finished transaction but Rollback says so.
func TestFinishedTransaction(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	finish := map[string]func(tx *percolator.Txn){
		"committed":       func(tx *percolator.Txn) { fixture.MustCommit(t, ctx, tx) },
		"rolled back":     func(tx *percolator.Txn) { fixture.Must(t, tx.Rollback(ctx)) },
		"committed empty": func(tx *percolator.Txn) { fixture.MustCommit(t, ctx, tx) },
		"failed to commit": func(tx *percolator.Txn) {
			fixture.Put(t, ctx, env.Client, "r", "x", "other")
			fixture.Must(t, tx.Set(fixture.Cell("r", "x"), nil))
			fixture.WantErr(t, fixture.ErrOf(tx.Commit(ctx)), percolator.ErrConflict)
		},
	}
	for name, end := range finish {
		tx := fixture.MustBegin(t, ctx, env.Client)
		if name != "committed empty" {
			fixture.Must(t, tx.Set(fixture.Cell("r", name), []byte("v")))
		}
		end(tx)
		for method, err := range map[string]error{
			"Set":          tx.Set(fixture.Cell("r", "c"), nil),
			"Insert":       tx.Insert(fixture.Cell("r", "c"), nil),
			"Delete":       tx.Delete(fixture.Cell("r", "c")),
			"Notify":       tx.Notify(fixture.Cell("r", "poke")),
			"Get":          fixture.ErrOf(tx.Get(ctx, fixture.Cell("r", "c"))),
			"GetMulti":     fixture.ErrOf(tx.GetMulti(ctx, fixture.Cell("r", "c"))),
			"GetForUpdate": fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("r", "c"))),
			"Commit":       fixture.ErrOf(tx.Commit(ctx)),
			"Scan":         fixture.FirstError(tx.Scan(ctx, "t", percolator.All())),
			"ScanWith":     fixture.FirstError(tx.ScanWith(ctx, "t", percolator.ScanOptions{})),
			"ScanIndex":    fixture.FirstError(tx.ScanIndex(ctx, "people", "city", percolator.All())),
		} {
			if !errors.Is(err, percolator.ErrTxnDone) {
				t.Errorf("%s: %s gave %v", name, method, err)
			}
		}
		fixture.Must(t, tx.Rollback(ctx))
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "committed"), "v")
}

// Slices belong to whoever passed or got them.
func TestSlicesAreCopied(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	v := []byte("value")
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), v))
	v[0] = 'X'
	spoil := func(b []byte) {
		for i := range b {
			b[i] = '#'
		}
	}
	own, err := tx.Get(ctx, fixture.Cell("r", "c"))
	fixture.Must(t, err)
	spoil(own)
	for e, err := range tx.Scan(ctx, "t", percolator.All()) {
		fixture.Must(t, err)
		spoil(e.Value)
	}
	fixture.WantValue(t, ctx, tx, fixture.Cell("r", "c"), "value")
	fixture.MustCommit(t, ctx, tx)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for range 3 { // the second and third are answered from the cache
		got, err := s.Get(ctx, fixture.Cell("r", "c"))
		fixture.Must(t, err)
		if string(got) != "value" {
			t.Fatalf("read %q", got)
		}
		spoil(got)
		many, err := s.GetMulti(ctx, fixture.Cell("r", "c"), fixture.Cell("r", "c"))
		fixture.Must(t, err)
		spoil(many[0])
		if string(many[1]) != "value" {
			t.Errorf("two answers share their bytes: %q", many[1])
		}
		for e, err := range s.Scan(ctx, "t", percolator.All()) {
			fixture.Must(t, err)
			spoil(e.Value)
		}
	}
}

func TestInsertNeedsAnAbsentCell(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	insert := func(row string) error {
		_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
			return tx.Insert(fixture.Cell(row, "c"), []byte("v"))
		})
		return err
	}
	fixture.Must(t, insert("r"))
	fixture.WantErr(t, insert("r"), percolator.ErrExists)
	_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error { return tx.Delete(fixture.Cell("r", "c")) })
	fixture.Must(t, err)
	fixture.Must(t, insert("r")) // what was deleted is absent
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}
	fixture.Put(t, ctx, env.Client, "empty", "c", "")
	fixture.WantErr(t, insert("empty"), percolator.ErrExists) // an empty value is one
	fixture.Put(t, ctx, env.Client, "siblings", "d", "v")
	fixture.Must(t, insert("siblings"))
}

func TestConcurrentInsertsHaveOneWinner(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	clients := []*percolator.Client{env.Client, env.NewClient()}
	for round := range 5 {
		var won, lost atomic.Int64
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, err := clients[g%2].Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
					return errors.Join(tx.Set(fixture.Cell(fmt.Sprint("other", g), "c"), nil), tx.Insert(fixture.Cell(fixture.Key(round), "c"), fmt.Append(nil, g)))
				})
				switch {
				case err == nil:
					won.Add(1)
				case errors.Is(err, percolator.ErrExists):
					lost.Add(1)
				default:
					t.Errorf("%v", err)
				}
			}()
		}
		wg.Wait()
		if won.Load() != 1 || lost.Load() != 15 {
			t.Errorf("%d inserts won and %d lost", won.Load(), lost.Load())
		}
	}
}

// Two doctors on call: each leaves if the other stays. Snapshot isolation lets both leave;
// GetForUpdate does not.
func TestWriteSkew(t *testing.T) {
	t.Parallel()
	for _, safe := range []bool{false, true} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		fixture.Put(t, ctx, env.Client, "ann", "call", "yes", "bob", "call", "yes")
		leave := func(who, other string) *percolator.Txn {
			tx := fixture.MustBegin(t, ctx, env.Client)
			read := tx.Get
			if safe {
				read = tx.GetForUpdate
			}
			v, err := read(ctx, fixture.Cell(other, "call"))
			fixture.Must(t, err)
			if string(v) == "yes" {
				fixture.Must(t, tx.Set(fixture.Cell(who, "call"), []byte("no")))
			}
			return tx
		}
		a, b := leave("ann", "bob"), leave("bob", "ann")
		fixture.MustCommit(t, ctx, a)
		_, err := b.Commit(ctx)
		if !safe {
			fixture.Must(t, err)
			continue
		}
		var conflict *percolator.ConflictError
		if !errors.As(err, &conflict) {
			t.Fatalf("write skew under GetForUpdate: %v", err)
		}
		if conflict.StartTS != b.StartTimestamp() || conflict.OtherTS <= a.StartTimestamp() || conflict.Locked {
			t.Errorf("the conflict is told as %+v", conflict)
		}
	}
}

// GetForUpdate on an absent cell locks the absence, and notifies nobody.
func TestGetForUpdateOfAbsentCell(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	a, b := fixture.MustBegin(t, ctx, env.Client), fixture.MustBegin(t, ctx, env.Client)
	for _, tx := range []*percolator.Txn{a, b} {
		fixture.WantErr(t, fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("r", "seen"))), percolator.ErrNotFound)
	}
	fixture.MustCommit(t, ctx, a)
	fixture.WantErr(t, fixture.ErrOf(b.Commit(ctx)), percolator.ErrConflict)
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "seen"), "")
	if n := fixture.CellsOf(t, ctx, env, "t", "notify"); n != 0 {
		t.Errorf("%d notifications", n)
	}
}

func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c", "old", "b", "c", "old", "d", "c", "old", "d", "e", "old")
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("new")))
	fixture.Must(t, tx.Delete(fixture.Cell("b", "c")))
	fixture.Must(t, tx.Set(fixture.Cell("c", "c"), []byte("new")))
	fixture.Must(t, tx.Set(fixture.Cell("d", "d"), []byte("new")))
	fixture.Must(t, tx.Set(fixture.Cell("d", "e"), []byte("gone")))
	fixture.Must(t, tx.Delete(fixture.Cell("d", "e")))
	fixture.Must(t, tx.Set(fixture.Cell("z", "c"), []byte("first")))
	fixture.Must(t, tx.Set(fixture.Cell("z", "c"), []byte("last")))
	fixture.Must(t, tx.Set(percolator.Cell{Table: "u", Row: "a", Column: "c"}, []byte("another table")))
	fixture.WantErr(t, fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("b", "c"))), percolator.ErrNotFound)
	fixture.WantErr(t, fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("y", "c"))), percolator.ErrNotFound)

	fixture.WantValue(t, ctx, tx, fixture.Cell("a", "c"), "new")
	fixture.WantValue(t, ctx, tx, fixture.Cell("b", "c"), "")
	values, err := tx.GetMulti(ctx, fixture.Cell("a", "c"), fixture.Cell("b", "c"), fixture.Cell("c", "c"), fixture.Cell("d", "c"), fixture.Cell("x", "x"))
	fixture.Must(t, err)
	if got := fmt.Sprintf("%q", values); got != `["new" "" "new" "old" ""]` || values[1] != nil || values[4] != nil {
		t.Errorf("GetMulti: %s", got)
	}
	list := func(r percolator.Range, columns ...string) string {
		var b strings.Builder
		for e, err := range tx.Scan(ctx, "t", r, columns...) {
			fixture.Must(t, err)
			fmt.Fprintf(&b, "%s.%s=%s ", e.Cell.Row, e.Cell.Column, e.Value)
			if own := bytes.Contains(e.Value, []byte("old")); own == (e.CommitTS == 0) {
				t.Errorf("%s has the commit timestamp %d", e.Cell, e.CommitTS)
			}
		}
		return b.String()
	}
	for _, c := range []struct {
		r       percolator.Range
		columns []string
		want    string
	}{
		{percolator.All(), nil, "a.c=new c.c=new d.c=old d.d=new z.c=last "},
		{percolator.Between("b", "d"), nil, "c.c=new "},
		{percolator.Row("d"), nil, "d.c=old d.d=new "},
		{percolator.Prefix("z"), nil, "z.c=last "},
		{percolator.All(), []string{"d"}, "d.d=new "},
		{percolator.All(), []string{"c", "c"}, "a.c=new c.c=new d.c=old z.c=last "},
		{percolator.Between("x", "b"), nil, ""},
		{percolator.Between("b", "b"), nil, ""},
	} {
		if got := list(c.r, c.columns...); got != c.want {
			t.Errorf("scan of %q %q: %s, want %s", c.r, c.columns, got, c.want)
		}
	}
	fixture.Must(t, tx.Rollback(ctx))
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("a", "c"), "old")
}

// A transaction without writes commits at its start timestamp and asks nobody.
func TestCommitWithoutWrites(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.WantErr(t, fixture.ErrOf(tx.Get(ctx, fixture.Cell("r", "c"))), percolator.ErrNotFound)
	before, stats := len(env.FaultsOf(env.Client).Requests()), env.Client.Stats()
	if ts := fixture.MustCommit(t, ctx, tx); ts != tx.StartTimestamp() {
		t.Errorf("committed at %d, want %d", ts, tx.StartTimestamp())
	}
	if n := len(env.FaultsOf(env.Client).Requests()) - before; n != 0 {
		t.Errorf("%d requests", n)
	}
	if after := env.Client.Stats(); after.Transactions != stats.Transactions || after.Requests["Oracle"] != stats.Requests["Oracle"] {
		t.Errorf("counted %+v after %+v", after, stats)
	}
}

func TestUpdateAgainAfterConflict(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	attempts := 0
	ts, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		attempts++
		if attempts < 3 {
			fixture.Put(t, ctx, env.Client, "r", "c", "in the way")
		}
		return tx.Set(fixture.Cell("r", "c"), fmt.Append(nil, attempts))
	})
	fixture.Must(t, err)
	if attempts != 3 || ts == 0 {
		t.Errorf("%d attempts, committed at %d: %v", attempts, ts, err)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), "3")

	attempts = 0
	ts, err = env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		attempts++
		fixture.Put(t, ctx, env.Client, "r", "c", "in the way")
		return tx.Set(fixture.Cell("r", "c"), nil)
	}, percolator.MaxAttempts(4))
	fixture.WantErr(t, err, percolator.ErrConflict)
	if attempts != 4 || ts != 0 || !strings.HasSuffix(err.Error(), "(after 4 attempts)") {
		t.Errorf("%d attempts, committed at %d", attempts, ts)
	}
	if n := env.Client.Stats().Conflicts; n != 6 {
		t.Errorf("%d conflicts counted, want 6", n)
	}
}

func TestUpdateReturnsTheFunctionsErrorAsItIs(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	mine := fmt.Errorf("mine: %w", percolator.ErrNotFound)
	attempts := 0
	_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		attempts++
		fixture.Must(t, tx.Set(fixture.Cell("r", "c"), nil))
		return mine
	})
	if err != mine || attempts != 1 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), "")
	if err := env.Client.View(ctx, func(context.Context, *percolator.Snapshot) error { return mine }); err != mine {
		t.Errorf("View: %v", err)
	}
}

func TestUpdateEndsWithItsContext(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, cancel := context.WithCancel(fixture.Context(t))
	attempts := 0
	_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		fixture.Put(t, fixture.Context(t), env.Client, "r", "c", "in the way")
		if attempts++; attempts == 3 {
			cancel()
		}
		return tx.Set(fixture.Cell("r", "c"), nil)
	})
	fixture.WantErr(t, err, context.Canceled)
	if attempts != 3 {
		t.Errorf("%d attempts", attempts)
	}
}

// A context that has ended before the commit point is tried aborts for certain and leaves nothing
// behind.
func TestCancelledCommitIsADefiniteAbort(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"before", "during prewrite", "at the oracle"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			env := fixture.NewEnv(t)
			ctx, cancel := context.WithCancel(fixture.Context(t))
			defer cancel()
			tx := fixture.MustBegin(t, ctx, env.Client)
			for i := range 5 {
				fixture.Must(t, tx.Set(fixture.Cell(fixture.Key(i), "c"), []byte("v")))
			}
			if stage == "before" {
				cancel()
			}
			env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
				if stage == "during prewrite" && fixture.IsPrewrite(r) && r.Row == fixture.Key(3) || stage == "at the oracle" && r.Method == percolatortest.Oracle {
					cancel()
				}
				return percolatortest.Pass
			})
			_, err := tx.Commit(ctx)
			fixture.WantErr(t, err, context.Canceled)
			if errors.Is(err, percolator.ErrOutcomeUnknown) {
				t.Errorf("%v, want a definite abort", err)
			}
			env.FaultsOf(env.Client).Handle(nil)
			after := fixture.Context(t)
			fixture.Eventually(t, "no locks and no data", func() bool {
				return fixture.CellsOf(t, after, env, "t", "lock") == 0 && fixture.CellsOf(t, after, env, "t", "data") == 0
			})
			if n := env.Client.Stats().Aborts; stage != "before" && n != 1 {
				t.Errorf("%d aborts counted", n)
			}
		})
	}
}

// The function of an Update leaves the end of its transaction to Update: an attempt to end it sends
// nothing, and what it writes is committed.
func TestUpdateEndsItsTransaction(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	var kept *percolator.Txn
	_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		kept = tx
		if err := tx.Set(fixture.Cell("r", "c"), []byte("1")); err != nil {
			return err
		}
		env.FaultsOf(env.Client).Forget()
		_, err := tx.Commit(ctx)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		fixture.WantErr(t, tx.Rollback(ctx), percolator.ErrInvalidArgument)
		if sent := env.FaultsOf(env.Client).Requests(); len(sent) > 0 {
			t.Errorf("%v were sent", sent)
		}
		return tx.Set(fixture.Cell("r", "d"), []byte("2"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]string{"c": "1", "d": "2"} {
		fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", column), want)
	}
	_, err = kept.Commit(ctx)
	fixture.WantErr(t, err, percolator.ErrTxnDone)
}
