package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What goes beyond snapshot isolation: promises about cells that a transaction does not overwrite, and reads of the past.

// A transaction that read for update conflicts with whatever writes the cell meanwhile, and it makes no difference who comes first.
func TestGetForUpdateConflictsWithEveryKindOfWrite(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	for name, other := range map[string]func(tx *percolator.Txn, at percolator.Cell) error{
		"Set":             func(tx *percolator.Txn, at percolator.Cell) error { return tx.Set(at, []byte("w")) },
		"Set of the same": func(tx *percolator.Txn, at percolator.Cell) error { return tx.Set(at, []byte("v")) },
		"Delete":          func(tx *percolator.Txn, at percolator.Cell) error { return tx.Delete(at) },
		"GetForUpdate":    func(tx *percolator.Txn, at percolator.Cell) error { return errOf(tx.GetForUpdate(ctx, at)) },
		"typed": func(tx *percolator.Txn, at percolator.Cell) error {
			return errOf(percolator.String("t", "c").GetForUpdate(ctx, tx, at.Row))
		},
		"Delete and again": func(tx *percolator.Txn, at percolator.Cell) error { return errors.Join(tx.Delete(at), tx.Set(at, nil)) },
	} {
		for _, first := range []bool{true, false} {
			at := cell(fmt.Sprint(name, first), "c")
			put(t, ctx, c, at.Row, "c", "v")
			reader, writer := mustBegin(t, ctx, c), mustBegin(t, ctx, c)
			v, err := reader.GetForUpdate(ctx, at)
			must(t, err)
			if string(v) != "v" {
				t.Errorf("%s: read %q", name, v)
			}
			must(t, other(writer, at))
			if !first {
				reader, writer = writer, reader
			}
			mustCommit(t, ctx, reader)
			if _, err := writer.Commit(ctx); !errors.Is(err, percolator.ErrConflict) {
				t.Errorf("%s, the reader first %v: %v", name, first, err)
			}
		}
	}
}

// Many transactions that derive a cell of their own from one that all read for update are serial: no two derive from one state.
func TestGetForUpdateUnderConcurrency(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := testContext(t)
	clients := []*percolator.Client{env.Client, env.NewClient()}
	const seats, people = 5, 16
	// A seat is taken by a write to a row of its own; the counter is only read for update, so that nothing but its lock is contested.
	var taken, refused atomic.Int64
	var wg sync.WaitGroup
	for g := range people {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got := false
			_, err := clients[g%2].Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				if _, err := tx.GetForUpdate(ctx, cell("guard", "c")); !errors.Is(err, percolator.ErrNotFound) {
					return fmt.Errorf("the guard has a value: %w", err)
				}
				n := 0
				for _, err := range tx.Scan(ctx, "t", percolator.Prefix("seat/"), "who") {
					if err != nil {
						return err
					}
					n++
				}
				if got = n < seats; !got {
					return nil
				}
				return tx.Insert(cell(fmt.Sprint("seat/", n), "who"), []byte(strconv.Itoa(g)))
			})
			if err != nil {
				t.Error(err)
			}
			if got {
				taken.Add(1)
			} else {
				refused.Add(1)
			}
		}()
	}
	wg.Wait()
	if taken.Load() != seats || refused.Load() != people-seats {
		t.Errorf("%d of %d seats taken, %d people refused", taken.Load(), seats, refused.Load())
	}
}

// A lock that reads for update is resolved like every other, and rolling it forward changes and notifies nothing.
func TestGetForUpdateOfDeadClient(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{false, true} {
		env := newEnv(t)
		ctx := testContext(t)
		put(t, ctx, env.Client, "a", "c", "v", "b", "seen", "v")
		notified := cellsOf(t, ctx, env, "t", "notify")
		dead := env.NewClient()
		tx := mustBegin(t, ctx, dead)
		must(t, tx.Set(cell("a", "c"), []byte("w"))) // the primary
		must(t, errOf(tx.GetForUpdate(ctx, cell("b", "seen"))))
		var stopped atomic.Bool
		env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
			if stopped.Load() || isCommit(r) && !committed {
				return percolatortest.Crash
			}
			stopped.Store(isCommit(r))
			return percolatortest.Pass
		})
		if _, err := tx.Commit(ctx); (err == nil) != committed {
			t.Fatalf("commit: %v", err)
		}
		dead.Flush(ctx)
		env.Clock.Advance(lockTTL)
		want := "v"
		if committed {
			want = "w"
		}
		wantNow(t, ctx, env.Client, cell("b", "seen"), "v")
		wantNow(t, ctx, env.Client, cell("a", "c"), want)
		must(t, env.Client.Flush(ctx))
		if n := cellsOf(t, ctx, env, "t", "lock"); n != 0 {
			t.Errorf("committed %v: %d locks left", committed, n)
		}
		if n := cellsOf(t, ctx, env, "t", "notify"); n != notified {
			t.Errorf("committed %v: %d notify cells, %d before", committed, n, notified)
		}
	}
}

// An Insert is a promise about the snapshot, whatever else the transaction does to the cell.
func TestInsertWithinATransaction(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	type step = func(tx *percolator.Txn, at percolator.Cell) error
	insert := func(v string) step {
		return func(tx *percolator.Txn, at percolator.Cell) error { return tx.Insert(at, []byte(v)) }
	}
	set := func(v string) step {
		return func(tx *percolator.Txn, at percolator.Cell) error { return tx.Set(at, []byte(v)) }
	}
	drop := func(tx *percolator.Txn, at percolator.Cell) error { return tx.Delete(at) }
	read := func(tx *percolator.Txn, at percolator.Cell) error {
		_, err := tx.GetForUpdate(ctx, at)
		if errors.Is(err, percolator.ErrNotFound) {
			return nil
		}
		return err
	}
	for name, c2 := range map[string]struct {
		steps []step
		want  string // where nothing was; "" for absence
	}{
		"insert":                 {[]step{insert("1")}, "1"},
		"insert twice":           {[]step{insert("1"), insert("2")}, "2"},
		"insert and set":         {[]step{insert("1"), set("2")}, "2"},
		"set and insert":         {[]step{set("1"), insert("2")}, "2"},
		"insert and delete":      {[]step{insert("1"), drop}, ""},
		"delete and insert":      {[]step{drop, insert("1")}, "1"},
		"for update and insert":  {[]step{read, insert("1")}, "1"},
		"insert and for update":  {[]step{insert("1"), read}, "1"},
		"insert an empty value":  {[]step{insert("")}, ""},
		"insert, delete, insert": {[]step{insert("1"), drop, insert("2")}, "2"},
	} {
		run := func(at percolator.Cell) error {
			tx := mustBegin(t, ctx, c)
			for _, s := range c2.steps {
				must(t, s(tx, at))
			}
			_, err := tx.Commit(ctx)
			return err
		}
		must(t, run(cell(name, "c")))
		s, err := c.Snapshot(ctx)
		must(t, err)
		v, err := s.Get(ctx, cell(name, "c"))
		if string(v) != c2.want || err != nil && c2.want != "" {
			t.Errorf("%s: %q, %v, want %q", name, v, err, c2.want)
		}
		put(t, ctx, c, "there "+name, "c", "before")
		if err := run(cell("there "+name, "c")); !errors.Is(err, percolator.ErrExists) {
			t.Errorf("%s over a value: %v", name, err)
		}
		wantNow(t, ctx, c, cell("there "+name, "c"), "before")
	}
	must(t, c.Flush(ctx))
	if n := cellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}
}

// Insert as a latch: of all who insert and delete one cell over and over, no two hold it at a time.
func TestInsertIsExclusiveUnderConcurrency(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := testContext(t)
	clients := []*percolator.Client{env.Client, env.NewClient()}
	latch := cell("latch", "c")
	var holders, rounds atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := clients[g%2]
			for held := 0; held < 4; {
				_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Insert(latch, []byte(strconv.Itoa(g))) })
				if errors.Is(err, percolator.ErrExists) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				held++
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the latch", n)
				}
				wantNow(t, ctx, c, latch, strconv.Itoa(g))
				holders.Add(-1)
				if err := update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(latch) }); err != nil {
					t.Error(err)
					return
				}
				rounds.Add(1)
			}
		}()
	}
	wg.Wait()
	if n := rounds.Load(); n != 32 {
		t.Errorf("%d rounds, want 32", n)
	}
}

// An Insert into a cell that a dead transaction holds is decided by that transaction's fate.
func TestInsertBehindDeadClient(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{false, true} {
		env := newEnv(t)
		ctx := testContext(t)
		is := isCommit
		if !committed {
			is = nil
		}
		crashAfter(t, env, is, "primary", "r")
		env.Clock.Advance(lockTTL)
		err := update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Insert(cell("r", "c"), []byte("mine")) })
		if errors.Is(err, percolator.ErrExists) != committed || err != nil && !committed {
			t.Errorf("committed %v: %v", committed, err)
		}
		want := "mine"
		if committed {
			want = "crashed"
		}
		wantNow(t, ctx, env.Client, cell("r", "c"), want)
	}
}
