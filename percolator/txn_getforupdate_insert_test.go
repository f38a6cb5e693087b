package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What goes beyond snapshot isolation: promises about cells that a transaction does not overwrite,
// and reads of the past.

// A transaction that read for update conflicts with whatever writes the cell meanwhile, and it
// makes no difference who comes first.
func TestGetForUpdateConflictsWithEveryKindOfWrite(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	for name, other := range map[string]func(tx *percolator.Txn, at percolator.Cell) error{
		"Set":             func(tx *percolator.Txn, at percolator.Cell) error { return tx.Set(at, []byte("w")) },
		"Set of the same": func(tx *percolator.Txn, at percolator.Cell) error { return tx.Set(at, []byte("v")) },
		"Delete":          func(tx *percolator.Txn, at percolator.Cell) error { return tx.Delete(at) },
		"GetForUpdate":    func(tx *percolator.Txn, at percolator.Cell) error { return fixture.ErrOf(tx.GetForUpdate(ctx, at)) },
		"typed": func(tx *percolator.Txn, at percolator.Cell) error {
			return fixture.ErrOf(percolator.String("t", "c").GetForUpdate(ctx, tx, at.Row))
		},
		"Delete and again": func(tx *percolator.Txn, at percolator.Cell) error { return errors.Join(tx.Delete(at), tx.Set(at, nil)) },
	} {
		for _, first := range []bool{true, false} {
			at := fixture.Cell(fmt.Sprint(name, first), "c")
			fixture.Put(t, ctx, c, at.Row, "c", "v")
			reader, writer := fixture.MustBegin(t, ctx, c), fixture.MustBegin(t, ctx, c)
			v, err := reader.GetForUpdate(ctx, at)
			fixture.Must(t, err)
			if string(v) != "v" {
				t.Errorf("%s: read %q", name, v)
			}
			fixture.Must(t, other(writer, at))
			if !first {
				reader, writer = writer, reader
			}
			fixture.MustCommit(t, ctx, reader)
			if _, err := writer.Commit(ctx); !errors.Is(err, percolator.ErrConflict) {
				t.Errorf("%s, the reader first %v: %v", name, first, err)
			}
		}
	}
}

// Many transactions that derive a cell of their own from one that all read for update are serial:
// no two derive from one state.
func TestGetForUpdateUnderConcurrency(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	clients := []*percolator.Client{env.Client, env.NewClient()}
	const slots, people = 5, 16
	// A slot is taken by a write to a row of its own; the counter is only read for update, so that
	// nothing but its lock is contested.
	var taken, refused atomic.Int64
	var wg sync.WaitGroup
	for g := range people {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got := false
			_, err := clients[g%2].Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				if _, err := tx.GetForUpdate(ctx, fixture.Cell("guard", "c")); !errors.Is(err, percolator.ErrNotFound) {
					return fmt.Errorf("the guard has a value: %w", err)
				}
				n := 0
				for _, err := range tx.Scan(ctx, "t", percolator.Prefix("slot/"), "who") {
					if err != nil {
						return err
					}
					n++
				}
				if got = n < slots; !got {
					return nil
				}
				return tx.Insert(fixture.Cell(fmt.Sprint("slot/", n), "who"), []byte(strconv.Itoa(g)))
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
	if taken.Load() != slots || refused.Load() != people-slots {
		t.Errorf("%d of %d slots taken, %d people refused", taken.Load(), slots, refused.Load())
	}
}

// A lock that reads for update is resolved like every other, and rolling it forward changes and
// notifies nothing.
func TestGetForUpdateOfDeadClient(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{false, true} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		fixture.Put(t, ctx, env.Client, "a", "c", "v", "b", "seen", "v")
		notified := fixture.CellsOf(t, ctx, env, "t", "notify")
		dead := env.NewClient()
		tx := fixture.MustBegin(t, ctx, dead)
		fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("w"))) // the primary
		fixture.Must(t, fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Cell("b", "seen"))))
		var stopped atomic.Bool
		env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
			if stopped.Load() || fixture.IsCommit(r) && !committed {
				return percolatortest.Crash
			}
			stopped.Store(fixture.IsCommit(r))
			return percolatortest.Pass
		})
		if _, err := tx.Commit(ctx); (err == nil) != committed {
			t.Fatalf("commit: %v", err)
		}
		dead.Flush(ctx)
		env.Clock.Advance(fixture.LockTTL)
		want := "v"
		if committed {
			want = "w"
		}
		fixture.WantNow(t, ctx, env.Client, fixture.Cell("b", "seen"), "v")
		fixture.WantNow(t, ctx, env.Client, fixture.Cell("a", "c"), want)
		fixture.Must(t, env.Client.Flush(ctx))
		if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
			t.Errorf("committed %v: %d locks left", committed, n)
		}
		if n := fixture.CellsOf(t, ctx, env, "t", "notify"); n != notified {
			t.Errorf("committed %v: %d notify cells, %d before", committed, n, notified)
		}
	}
}

// An Insert is a promise about the snapshot, whatever else the transaction does to the cell.
func TestInsertWithinATransaction(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
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
			tx := fixture.MustBegin(t, ctx, c)
			for _, s := range c2.steps {
				fixture.Must(t, s(tx, at))
			}
			_, err := tx.Commit(ctx)
			return err
		}
		fixture.Must(t, run(fixture.Cell(name, "c")))
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		v, err := s.Get(ctx, fixture.Cell(name, "c"))
		if string(v) != c2.want || err != nil && c2.want != "" {
			t.Errorf("%s: %q, %v, want %q", name, v, err, c2.want)
		}
		fixture.Put(t, ctx, c, "there "+name, "c", "before")
		if err := run(fixture.Cell("there "+name, "c")); !errors.Is(err, percolator.ErrExists) {
			t.Errorf("%s over a value: %v", name, err)
		}
		fixture.WantNow(t, ctx, c, fixture.Cell("there "+name, "c"), "before")
	}
	fixture.Must(t, c.Flush(ctx))
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}
}

// Insert as a latch: of all who insert and delete one cell over and over, no two hold it at a time.
func TestInsertIsExclusiveUnderConcurrency(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	clients := []*percolator.Client{env.Client, env.NewClient()}
	latch := fixture.Cell("latch", "c")
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
				fixture.WantNow(t, ctx, c, latch, strconv.Itoa(g))
				holders.Add(-1)
				if err := fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(latch) }); err != nil {
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

// An Insert into a cell that a dead transaction holds is decided by that transaction's status.
func TestInsertBehindDeadClient(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{false, true} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		is := fixture.IsCommit
		if !committed {
			is = nil
		}
		fixture.CrashAfter(t, env, is, "primary", "r")
		env.Clock.Advance(fixture.LockTTL)
		err := fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Insert(fixture.Cell("r", "c"), []byte("mine")) })
		if errors.Is(err, percolator.ErrExists) != committed || err != nil && !committed {
			t.Errorf("committed %v: %v", committed, err)
		}
		want := "mine"
		if committed {
			want = "crashed"
		}
		fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), want)
	}
}
