package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What a scan has not handed out is not locked; what it has is, even if the consumer breaks off
// there and then.
func TestLockReadsLocksBeforeItHandsOut(t *testing.T) {
	t.Parallel()
	for _, written := range []string{"a", "b", "c"} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		fixture.Put(t, ctx, env.Client, "a", "c", "v", "b", "c", "v", "c", "c", "v")
		tx := fixture.MustBegin(t, ctx, env.Client, percolator.LockReads())
		for e, err := range tx.Scan(ctx, "t", percolator.All()) {
			fixture.Must(t, err)
			if e.Cell.Row == "b" {
				break
			}
		}
		fixture.Put(t, ctx, env.Client, written, "c", "w")
		if _, err := tx.Commit(ctx); errors.Is(err, percolator.ErrConflict) != (written != "c") {
			t.Errorf("%s was written meanwhile: %v", written, err)
		}
	}
}

// Nobody asked for what was prefetched.
func TestLockReadsDoesNotLockPrefetchedCells(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	const n = 20
	tx := fixture.MustBegin(t, ctx, c)
	for i := range n {
		fixture.Must(t, errors.Join(tx.Set(fixture.Cell(fixture.Key(i), "a"), []byte("a")), tx.Set(fixture.Cell(fixture.Key(i), "b"), []byte("b"))))
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx))
	for i := range n { // the predictor learns that b follows a
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, fixture.Cell(fixture.Key(i), "a"), "a")
		fixture.WantValue(t, ctx, s, fixture.Cell(fixture.Key(i), "b"), "b")
	}
	for _, asked := range []bool{false, true} {
		tx := fixture.MustBegin(t, ctx, c, percolator.LockReads())
		fixture.WantValue(t, ctx, tx, fixture.Cell(fixture.Key(1), "a"), "a")
		before := fixture.Tally(env, c)["ReadRows"]
		if asked {
			fixture.WantValue(t, ctx, tx, fixture.Cell(fixture.Key(1), "b"), "b")
			if n := fixture.Tally(env, c)["ReadRows"] - before; n != 0 {
				t.Fatalf("%d requests for b: it was not prefetched, and this test shows nothing", n)
			}
		}
		fixture.Put(t, ctx, env.NewClient(), fixture.Key(1), "b", "b")
		if _, err := tx.Commit(ctx); errors.Is(err, percolator.ErrConflict) != asked {
			t.Errorf("asked for b %v: %v", asked, err)
		}
	}
}

// A transaction that only read commits for real: it holds against writers before it, and those that
// are still open conflict with it.
func TestLockReadsOfReadOnlyTransaction(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "seen", "v", "s", "c", "v")
	notified := fixture.CellsOf(t, ctx, env, "t", "notify")
	other := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, other.Set(fixture.Cell("r", "seen"), []byte("w")))
	tx := fixture.MustBegin(t, ctx, c, percolator.LockReads())
	fixture.WantValue(t, ctx, tx, fixture.Cell("r", "seen"), "v")
	fixture.WantValue(t, ctx, tx, fixture.Cell("s", "c"), "v")
	if ts := fixture.MustCommit(t, ctx, tx); ts <= tx.StartTimestamp() {
		t.Errorf("committed at %d, started at %d", ts, tx.StartTimestamp())
	}
	fixture.WantErr(t, fixture.ErrOf(other.Commit(ctx)), percolator.ErrConflict)
	fixture.Must(t, c.Flush(ctx))
	fixture.WantNow(t, ctx, c, fixture.Cell("r", "seen"), "v")
	if n := fixture.CellsOf(t, ctx, env, "t", "notify"); n != notified {
		t.Errorf("%d notify cells, %d before", n, notified)
	}
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}

	late := fixture.MustBegin(t, ctx, c, percolator.LockReads())
	fixture.WantValue(t, ctx, late, fixture.Cell("s", "c"), "v")
	fixture.Put(t, ctx, c, "s", "c", "w")
	fixture.WantErr(t, fixture.ErrOf(late.Commit(ctx)), percolator.ErrConflict)

	none := fixture.MustBegin(t, ctx, c, percolator.LockReads()) // nothing read, nothing to commit
	if ts := fixture.MustCommit(t, ctx, none); ts != none.StartTimestamp() {
		t.Errorf("committed at %d, started at %d", ts, none.StartTimestamp())
	}
}

// Update applies the option to every attempt.
func TestLockReadsInUpdate(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "v")
	attempts := 0
	_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		attempts++
		if _, err := tx.Get(ctx, fixture.Cell("r", "c")); err != nil {
			return err
		}
		if attempts < 3 {
			fixture.Put(t, ctx, c, "r", "c", fmt.Sprint(attempts))
		}
		return tx.Set(fixture.Cell("s", "c"), []byte("v"))
	}, percolator.LockReads())
	fixture.Must(t, err)
	if attempts != 3 {
		t.Errorf("%d attempts, want 3", attempts)
	}
}

func TestLockReadsContradictsBlind(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	for _, opts := range [][]percolator.TxnOption{{percolator.LockReads(), percolator.Blind()}, {percolator.Blind(), percolator.LockReads()}} {
		fixture.WantErr(t, fixture.ErrOf(env.Client.Begin(ctx, opts...)), percolator.ErrInvalidArgument)
		_, err := env.Client.Update(ctx, func(context.Context, *percolator.Txn) error {
			t.Error("the function was called")
			return nil
		}, opts...)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	}
}

// A read neither replaces a buffered write nor stands in the way of a later one.
func TestLockReadsBesideWrites(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "a", "c", "old", "b", "c", "old", "d", "c", "old", "e", "c", "old")
	tx := fixture.MustBegin(t, ctx, c, percolator.LockReads())
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("new")))
	fixture.WantValue(t, ctx, tx, fixture.Cell("a", "c"), "new")
	fixture.WantValue(t, ctx, tx, fixture.Cell("b", "c"), "old")
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("new")))
	fixture.WantValue(t, ctx, tx, fixture.Cell("b", "c"), "new")
	fixture.Must(t, tx.Delete(fixture.Cell("d", "c")))
	fixture.WantValue(t, ctx, tx, fixture.Cell("d", "c"), "")
	fixture.WantValue(t, ctx, tx, fixture.Cell("f", "c"), "")
	fixture.Must(t, tx.Insert(fixture.Cell("f", "c"), []byte("new")))
	fixture.WantValue(t, ctx, tx, fixture.Cell("r", "poke"), "") // a weak column: nobody can write it, so there is nothing to lock
	fixture.Must(t, tx.Notify(fixture.Cell("r", "poke")))
	var rows []string
	for e, err := range tx.Scan(ctx, "t", percolator.All()) {
		fixture.Must(t, err)
		rows = append(rows, e.Cell.Row+"="+string(e.Value))
	}
	if got := fmt.Sprint(rows); got != "[a=new b=new e=old f=new]" {
		t.Errorf("scanned %s", got)
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx))
	for row, want := range map[string]string{"a": "new", "b": "new", "d": "", "e": "old", "f": "new"} {
		fixture.WantNow(t, ctx, c, fixture.Cell(row, "c"), want)
	}
	again := fixture.MustBegin(t, ctx, c, percolator.LockReads())
	fixture.WantValue(t, ctx, again, fixture.Cell("a", "c"), "new")
	fixture.Must(t, again.Insert(fixture.Cell("a", "c"), []byte("no")))
	fixture.WantErr(t, fixture.ErrOf(again.Commit(ctx)), percolator.ErrExists)
}

// Bad names are refused as they are without the option, and the transaction goes on; a finished one
// reads and locks nothing more, in the middle of a scan either.
func TestLockReadsRefusals(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "a", "c", "v", "b", "c", "v")
	tx := fixture.MustBegin(t, ctx, c, percolator.LockReads())
	fixture.WantErr(t, fixture.ErrOf(tx.Get(ctx, fixture.Cell("", "c"))), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(tx.Get(ctx, fixture.Cell("r", "\x00"))), percolator.ErrInvalidArgument)
	fixture.WantErr(t, fixture.ErrOf(tx.GetMulti(ctx, fixture.Cell("a", "c"), percolator.Cell{Table: "x", Row: "r", Column: "c"})), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, fixture.FirstError(tx.Scan(ctx, "x", percolator.All())), percolator.ErrSchemaMismatch)
	entries := 0
	var last error
	for _, err := range tx.Scan(ctx, "t", percolator.All()) {
		if last = err; err == nil {
			entries++
			fixture.MustCommit(t, ctx, tx)
		}
	}
	fixture.WantErr(t, last, percolator.ErrTxnDone)
	if entries != 1 {
		t.Errorf("%d entries were handed out", entries)
	}
	fixture.WantErr(t, fixture.ErrOf(tx.Get(ctx, fixture.Cell("a", "c"))), percolator.ErrTxnDone)
}

// What LockReads does not promise: an entry that comes to lie in a scanned range was not read, so
// two transactions that each count nobody and then add somebody both commit. A guard cell that
// everybody who adds writes is the remedy.
func TestLockReadsAllowsPhantoms(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{false, true} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		add := func(row string) *percolator.Txn {
			tx := fixture.MustBegin(t, ctx, env.Client, percolator.LockReads())
			if guarded {
				fixture.WantValue(t, ctx, tx, fixture.Cell("guard", "count"), "")
				fixture.Must(t, tx.Set(fixture.Cell("guard", "count"), []byte("1")))
			}
			for e, err := range tx.Scan(ctx, "t", percolator.Prefix("shift/")) {
				fixture.Must(t, err)
				t.Errorf("found %s", e.Cell)
			}
			fixture.Must(t, tx.Set(fixture.Cell(row, "who"), []byte("me")))
			return tx
		}
		a, b := add("shift/ann"), add("shift/bob")
		fixture.MustCommit(t, ctx, a)
		if _, err := b.Commit(ctx); errors.Is(err, percolator.ErrConflict) != guarded || err != nil && !guarded {
			t.Errorf("guarded %v: %v", guarded, err)
		}
	}
}

// The locks of a reader are like any others: a client that dies with them is cleaned up after, and
// changes nothing.
func TestLockReadsOfDeadClient(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "a", "c", "v", "b", "c", "v")
	dead := env.NewClient()
	tx := fixture.MustBegin(t, ctx, dead, percolator.LockReads())
	fixture.WantValue(t, ctx, tx, fixture.Cell("a", "c"), "v")
	fixture.WantValue(t, ctx, tx, fixture.Cell("b", "c"), "v")
	env.FaultsOf(dead).Handle(fixture.AtMost(1, fixture.IsCommit, percolatortest.Crash))
	if ts, err := tx.Commit(ctx); err == nil {
		t.Fatalf("the dead client committed at %d", ts)
	}
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 2 {
		t.Fatalf("%d locks, want 2", n)
	}
	env.Clock.Advance(fixture.LockTTL)
	fixture.Put(t, ctx, env.Client, "a", "c", "w", "b", "c", "w")
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("b", "c"), "w")
}
