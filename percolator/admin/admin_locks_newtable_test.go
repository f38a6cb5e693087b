package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A lock has its primary in a table that a client does not know yet. Where the client cannot read
// the schema, that table is not missing, and the lock not corrupt: who meets it may try again
// (I26).
func TestLockOfANewTableBesideASilentSchema(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	at := fixture.Cell("r", "c")
	for name, meet := range map[string]func(ctx context.Context, c *percolator.Client, lock model.Lock) error{
		"Get": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			return view(ctx, c, func(s percolator.Reader) error { return fixture.ErrOf(s.Get(ctx, at)) })
		},
		"GetMulti": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			return view(ctx, c, func(s percolator.Reader) error { return fixture.ErrOf(s.GetMulti(ctx, at, fixture.Cell("s", "c"))) })
		},
		"Scan": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			return view(ctx, c, func(s percolator.Reader) error { return fixture.FirstError(s.Scan(ctx, "t", percolator.All())) })
		},
		"Update": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			return fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Set(at, []byte("v")) })
		},
		"ResolveLock": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			return fixture.ErrOf(admin.New(c).ResolveLock(ctx, lock))
		},
		"ResolveLock of its primary": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			primary := lock
			primary.Cell = lock.Primary
			return fixture.ErrOf(admin.New(c).ResolveLock(ctx, primary))
		},
		"ListLocks": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			return fixture.FirstError(admin.New(c).ListLocks(ctx, "t", percolator.All(), admin.LockOptions{}))
		},
		"InspectRow": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			return fixture.ErrOf(admin.New(c).InspectRow(ctx, "t", "r", admin.InspectOptions{}))
		},
		"RowKeys": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			_, _, err := admin.New(c).RowKeys(ctx, "later", percolator.All(), 10)
			return err
		},
		"ListPending": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			return fixture.FirstError(admin.New(c).ListPending(ctx, "later", percolator.All(), admin.PendingOptions{}))
		},
		"Collect": func(ctx context.Context, c *percolator.Client, lock model.Lock) error {
			return fixture.ErrOf(fixture.NewCollector(t, c, admin.CollectorConfig{}).Collect(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				env := percolatortest.New(t, fixture.Schema())
				c, blind := metaBlind(env)
				lock := leaveLockOfNewTable(t, ctx, env)
				blind.Store(true)
				short, cancel := context.WithTimeout(ctx, 40*time.Second)
				defer cancel()
				if err := meet(short, c, lock); err == nil || errors.Is(err, percolator.ErrCorrupt) || errors.Is(err, percolator.ErrSchemaMismatch) {
					t.Errorf("beside a silent schema: %v", err)
				}
				blind.Store(false)
				fixture.Must(t, meet(ctx, c, lock))
			})
		})
	}
}

// view reads by a new snapshot. That a cell is missing is no failure.
func view(ctx context.Context, c *percolator.Client, read func(percolator.Reader) error) error {
	s, err := c.Snapshot(ctx)
	if err == nil {
		err = read(s)
	}
	if errors.Is(err, percolator.ErrNotFound) {
		return nil
	}
	return err
}

// leaveLockOfNewTable adds a table, and leaves a dead lock in t of a transaction whose primary is
// there.
func leaveLockOfNewTable(t testing.TB, ctx context.Context, env *percolatortest.Env) model.Lock {
	t.Helper()
	s := fixture.Schema()
	s.Tables = append(s.Tables, percolator.Table{Name: "later"})
	fixture.Apply(t, ctx, env, s)
	writer := env.NewClient()
	tx := fixture.MustBegin(t, ctx, writer)
	fixture.Must(t, tx.Set(percolator.Cell{Table: "later", Row: "p", Column: "c"}, []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
	env.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	if _, err := tx.Commit(ctx); err == nil {
		t.Fatal("the writer did not crash")
	}
	lock := fixture.StoredLock(t, ctx, env.Client, "r")
	time.Sleep(fixture.LockTTL)
	return lock
}
