package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What a scan has not handed out is not locked; what it has is, even if the consumer breaks off there and then.
func TestLockReadsLocksBeforeItHandsOut(t *testing.T) {
	t.Parallel()
	for _, written := range []string{"a", "b", "c"} {
		env := newEnv(t)
		ctx := testContext(t)
		put(t, ctx, env.Client, "a", "c", "v", "b", "c", "v", "c", "c", "v")
		tx := mustBegin(t, ctx, env.Client, percolator.LockReads())
		for e, err := range tx.Scan(ctx, "t", percolator.All()) {
			must(t, err)
			if e.Cell.Row == "b" {
				break
			}
		}
		put(t, ctx, env.Client, written, "c", "w")
		if _, err := tx.Commit(ctx); errors.Is(err, percolator.ErrConflict) != (written != "c") {
			t.Errorf("%s was written meanwhile: %v", written, err)
		}
	}
}

// Nobody asked for what was prefetched.
func TestLockReadsDoesNotLockPrefetchedCells(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	const n = 20
	tx := mustBegin(t, ctx, c)
	for i := range n {
		must(t, errors.Join(tx.Set(cell(key(i), "a"), []byte("a")), tx.Set(cell(key(i), "b"), []byte("b"))))
	}
	mustCommit(t, ctx, tx)
	must(t, c.Flush(ctx))
	for i := range n { // the predictor learns that b follows a
		s, err := c.Snapshot(ctx)
		must(t, err)
		wantValue(t, ctx, s, cell(key(i), "a"), "a")
		wantValue(t, ctx, s, cell(key(i), "b"), "b")
	}
	for _, asked := range []bool{false, true} {
		tx := mustBegin(t, ctx, c, percolator.LockReads())
		wantValue(t, ctx, tx, cell(key(1), "a"), "a")
		before := tally(env, c)["ReadRows"]
		if asked {
			wantValue(t, ctx, tx, cell(key(1), "b"), "b")
			if n := tally(env, c)["ReadRows"] - before; n != 0 {
				t.Fatalf("%d requests for b: it was not prefetched, and this test shows nothing", n)
			}
		}
		put(t, ctx, env.NewClient(), key(1), "b", "b")
		if _, err := tx.Commit(ctx); errors.Is(err, percolator.ErrConflict) != asked {
			t.Errorf("asked for b %v: %v", asked, err)
		}
	}
}

// A transaction that only read commits for real: it holds against writers before it, and those that are still open conflict with it.
func TestLockReadsOfReadOnlyTransaction(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	put(t, ctx, c, "r", "seen", "v", "s", "c", "v")
	notified := cellsOf(t, ctx, env, "t", "notify")
	other := mustBegin(t, ctx, c)
	must(t, other.Set(cell("r", "seen"), []byte("w")))
	tx := mustBegin(t, ctx, c, percolator.LockReads())
	wantValue(t, ctx, tx, cell("r", "seen"), "v")
	wantValue(t, ctx, tx, cell("s", "c"), "v")
	if ts := mustCommit(t, ctx, tx); ts <= tx.StartTimestamp() {
		t.Errorf("committed at %d, begun at %d", ts, tx.StartTimestamp())
	}
	wantErr(t, errOf(other.Commit(ctx)), percolator.ErrConflict)
	must(t, c.Flush(ctx))
	wantNow(t, ctx, c, cell("r", "seen"), "v")
	if n := cellsOf(t, ctx, env, "t", "notify"); n != notified {
		t.Errorf("%d notify cells, %d before", n, notified)
	}
	if n := cellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}

	late := mustBegin(t, ctx, c, percolator.LockReads())
	wantValue(t, ctx, late, cell("s", "c"), "v")
	put(t, ctx, c, "s", "c", "w")
	wantErr(t, errOf(late.Commit(ctx)), percolator.ErrConflict)

	none := mustBegin(t, ctx, c, percolator.LockReads()) // nothing read, nothing to commit
	if ts := mustCommit(t, ctx, none); ts != none.StartTimestamp() {
		t.Errorf("committed at %d, begun at %d", ts, none.StartTimestamp())
	}
}

// Update applies the option to every attempt.
func TestLockReadsInUpdate(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	put(t, ctx, c, "r", "c", "v")
	attempts := 0
	_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		attempts++
		if _, err := tx.Get(ctx, cell("r", "c")); err != nil {
			return err
		}
		if attempts < 3 {
			put(t, ctx, c, "r", "c", fmt.Sprint(attempts))
		}
		return tx.Set(cell("s", "c"), []byte("v"))
	}, percolator.LockReads())
	must(t, err)
	if attempts != 3 {
		t.Errorf("%d attempts, want 3", attempts)
	}
}

func TestLockReadsContradictsBlind(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := testContext(t)
	for _, opts := range [][]percolator.TxnOption{{percolator.LockReads(), percolator.Blind()}, {percolator.Blind(), percolator.LockReads()}} {
		wantErr(t, errOf(env.Client.Begin(ctx, opts...)), percolator.ErrInvalidArgument)
		_, err := env.Client.Update(ctx, func(context.Context, *percolator.Txn) error {
			t.Error("the function was called")
			return nil
		}, opts...)
		wantErr(t, err, percolator.ErrInvalidArgument)
	}
}

// A read neither replaces a buffered write nor stands in the way of a later one.
func TestLockReadsBesideWrites(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	put(t, ctx, c, "a", "c", "old", "b", "c", "old", "d", "c", "old", "e", "c", "old")
	tx := mustBegin(t, ctx, c, percolator.LockReads())
	must(t, tx.Set(cell("a", "c"), []byte("new")))
	wantValue(t, ctx, tx, cell("a", "c"), "new")
	wantValue(t, ctx, tx, cell("b", "c"), "old")
	must(t, tx.Set(cell("b", "c"), []byte("new")))
	wantValue(t, ctx, tx, cell("b", "c"), "new")
	must(t, tx.Delete(cell("d", "c")))
	wantValue(t, ctx, tx, cell("d", "c"), "")
	wantValue(t, ctx, tx, cell("f", "c"), "")
	must(t, tx.Insert(cell("f", "c"), []byte("new")))
	wantValue(t, ctx, tx, cell("r", "poke"), "") // a weak column: nobody can write it, so there is nothing to lock
	must(t, tx.Notify(cell("r", "poke")))
	var rows []string
	for e, err := range tx.Scan(ctx, "t", percolator.All()) {
		must(t, err)
		rows = append(rows, e.Cell.Row+"="+string(e.Value))
	}
	if got := fmt.Sprint(rows); got != "[a=new b=new e=old f=new]" {
		t.Errorf("scanned %s", got)
	}
	mustCommit(t, ctx, tx)
	must(t, c.Flush(ctx))
	for row, want := range map[string]string{"a": "new", "b": "new", "d": "", "e": "old", "f": "new"} {
		wantNow(t, ctx, c, cell(row, "c"), want)
	}
	again := mustBegin(t, ctx, c, percolator.LockReads())
	wantValue(t, ctx, again, cell("a", "c"), "new")
	must(t, again.Insert(cell("a", "c"), []byte("no")))
	wantErr(t, errOf(again.Commit(ctx)), percolator.ErrExists)
}

// Bad names are refused as they are without the option, and the transaction goes on; a finished one reads and locks nothing more, in the
// middle of a scan either.
func TestLockReadsRefusals(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	put(t, ctx, c, "a", "c", "v", "b", "c", "v")
	tx := mustBegin(t, ctx, c, percolator.LockReads())
	wantErr(t, errOf(tx.Get(ctx, cell("", "c"))), percolator.ErrInvalidArgument)
	wantErr(t, errOf(tx.Get(ctx, cell("r", "\x00"))), percolator.ErrInvalidArgument)
	wantErr(t, errOf(tx.GetMulti(ctx, cell("a", "c"), percolator.Cell{Table: "x", Row: "r", Column: "c"})), percolator.ErrSchemaMismatch)
	wantErr(t, firstError(tx.Scan(ctx, "x", percolator.All())), percolator.ErrSchemaMismatch)
	entries := 0
	var last error
	for _, err := range tx.Scan(ctx, "t", percolator.All()) {
		if last = err; err == nil {
			entries++
			mustCommit(t, ctx, tx)
		}
	}
	wantErr(t, last, percolator.ErrTxnDone)
	if entries != 1 {
		t.Errorf("%d entries were handed out", entries)
	}
	wantErr(t, errOf(tx.Get(ctx, cell("a", "c"))), percolator.ErrTxnDone)
}

// What LockReads does not promise: an entry that comes to lie in a scanned range was not read, so two transactions that each count
// nobody and then add somebody both commit. A guard cell that everybody who adds writes is the remedy.
func TestLockReadsAllowsPhantoms(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{false, true} {
		env := newEnv(t)
		ctx := testContext(t)
		add := func(row string) *percolator.Txn {
			tx := mustBegin(t, ctx, env.Client, percolator.LockReads())
			if guarded {
				wantValue(t, ctx, tx, cell("guard", "count"), "")
				must(t, tx.Set(cell("guard", "count"), []byte("1")))
			}
			for e, err := range tx.Scan(ctx, "t", percolator.Prefix("shift/")) {
				must(t, err)
				t.Errorf("found %s", e.Cell)
			}
			must(t, tx.Set(cell(row, "who"), []byte("me")))
			return tx
		}
		a, b := add("shift/ann"), add("shift/bob")
		mustCommit(t, ctx, a)
		if _, err := b.Commit(ctx); errors.Is(err, percolator.ErrConflict) != guarded || err != nil && !guarded {
			t.Errorf("guarded %v: %v", guarded, err)
		}
	}
}

// The locks of a reader are like any others: a client that dies with them is cleaned up after, and changes nothing.
func TestLockReadsOfDeadClient(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := testContext(t)
	put(t, ctx, env.Client, "a", "c", "v", "b", "c", "v")
	dead := env.NewClient()
	tx := mustBegin(t, ctx, dead, percolator.LockReads())
	wantValue(t, ctx, tx, cell("a", "c"), "v")
	wantValue(t, ctx, tx, cell("b", "c"), "v")
	env.FaultsOf(dead).Handle(atMost(1, isCommit, percolatortest.Crash))
	if ts, err := tx.Commit(ctx); err == nil {
		t.Fatalf("the dead client committed at %d", ts)
	}
	if n := cellsOf(t, ctx, env, "t", "lock"); n != 2 {
		t.Fatalf("%d locks, want 2", n)
	}
	env.Clock.Advance(lockTTL)
	put(t, ctx, env.Client, "a", "c", "w", "b", "c", "w")
	wantNow(t, ctx, env.Client, cell("b", "c"), "w")
}
