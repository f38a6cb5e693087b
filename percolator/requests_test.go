package percolator_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

// What each operation costs, in requests to user tables and to the oracle.
func TestRequestCounts(t *testing.T) {
	t.Parallel()
	const n = 10
	type counts map[string]int
	for _, c := range []struct {
		name string
		do   func(t *testing.T, ctx context.Context, c *percolator.Client)
		want counts
		bulk bool // phase two: at least one MutateRows, at most one a row
	}{
		{"begin and roll back", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			tx := mustBegin(t, ctx, c)
			must(t, tx.Set(cell("r", "c"), nil))
			must(t, tx.Rollback(ctx))
		}, counts{"Oracle": 1}, false},
		{"set and commit one row", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			tx := mustBegin(t, ctx, c)
			for _, col := range []string{"c", "d", "seen"} {
				must(t, tx.Set(cell("new", col), []byte("v")))
			}
			mustCommit(t, ctx, tx)
		}, counts{"Oracle": 2, "CheckAndMutateRow": 2}, false},
		{"set and commit 10 rows", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			tx := mustBegin(t, ctx, c)
			for i := range n {
				must(t, tx.Set(cell(fmt.Sprint("new", i), "c"), []byte("v")))
			}
			mustCommit(t, ctx, tx)
		}, counts{"Oracle": 2, "CheckAndMutateRow": n + 1}, true},
		{"get", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			wantNow(t, ctx, c, cell("r", "c"), "v")
		}, counts{"Oracle": 1, "ReadRows": 1}, false},
		{"get of nothing", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			wantNow(t, ctx, c, cell("none", "c"), "")
		}, counts{"Oracle": 1, "ReadRows": 1}, false},
		{"get again", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			tx := mustBegin(t, ctx, c)
			for range 3 {
				wantValue(t, ctx, tx, cell("r", "c"), "v")
				wantValue(t, ctx, tx, cell("none", "c"), "")
			}
		}, counts{"Oracle": 1, "ReadRows": 2}, false},
		{"get what was set", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			tx := mustBegin(t, ctx, c)
			must(t, tx.Set(cell("r", "c"), []byte("own")))
			wantValue(t, ctx, tx, cell("r", "c"), "own")
		}, counts{"Oracle": 1}, false},
		{"get many rows", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			s, err := c.Snapshot(ctx)
			must(t, err)
			var cells []percolator.Cell
			for i := range 300 {
				cells = append(cells, cell(fmt.Sprint("r", i), "c"))
			}
			must(t, errOf(s.GetMulti(ctx, cells...)))
			must(t, errOf(s.GetMulti(ctx, cells...)))
		}, counts{"Oracle": 1, "ReadRows": 1}, false},
		{"get many columns", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			s, err := c.Snapshot(ctx)
			must(t, err)
			must(t, errOf(s.GetMulti(ctx, cell("r", "c"), cell("r", "d"), cell("r", "e"))))
		}, counts{"Oracle": 1, "ReadRows": 1}, false},
		{"scan", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			s, err := c.Snapshot(ctx)
			must(t, err)
			must(t, firstError(s.Scan(ctx, "t", percolator.All())))
		}, counts{"Oracle": 1, "ReadRows": 1}, false},
		{"conflict", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			tx := mustBegin(t, ctx, c)
			must(t, tx.Set(cell("r", "c"), nil))
			put(t, ctx, c, "r", "c", "v")
			wantErr(t, errOf(tx.Commit(ctx)), percolator.ErrConflict)
		}, counts{"Oracle": 3, "CheckAndMutateRow": 3, "ReadRows": 1}, false},
		{"insert", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			must(t, update(ctx, c, func(tx *percolator.Txn) error { return tx.Insert(cell("new", "c"), nil) }))
		}, counts{"Oracle": 2, "CheckAndMutateRow": 2, "ReadRows": 1}, false},
		{"indexed", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			must(t, update(ctx, c, func(tx *percolator.Txn) error { return city.Set(tx, "ann", "Rome") }))
		}, counts{"Oracle": 2, "CheckAndMutateRow": 3, "ReadRows": 1}, true},
		{"weak notification only", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			must(t, update(ctx, c, func(tx *percolator.Txn) error { return tx.Notify(cell("r", "poke")) }))
		}, counts{"Oracle": 2}, true},
		{"acknowledge", func(t *testing.T, ctx context.Context, c *percolator.Client) {
			tx := mustBegin(t, ctx, c)
			must(t, errOf(tx.Acknowledge(ctx, cell("r", "seen"), "O", []string{"O", "P"})))
			mustCommit(t, ctx, tx)
		}, counts{"Oracle": 2, "CheckAndMutateRow": 2, "ReadRows": 1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t)
			ctx, client := testContext(t), env.Client
			put(t, ctx, client, "r", "c", "v", "r", "seen", "v")
			must(t, client.Flush(ctx))
			env.FaultsOf(client).Forget()
			before := client.Stats()
			c.do(t, ctx, client)
			must(t, client.Flush(ctx))
			got := tally(env, client)
			if bulk := got["MutateRows"]; c.bulk != (bulk > 0) || bulk > n {
				t.Errorf("%d MutateRows", bulk)
			}
			delete(got, "MutateRows")
			if fmt.Sprint(got) != fmt.Sprint(map[string]int(c.want)) {
				t.Errorf("%v, want %v", got, c.want)
			}
			// The client's own counters tell the same.
			after := client.Stats()
			for method := range after.Requests {
				seen := 0
				for _, r := range env.FaultsOf(client).Requests() {
					if r.Method == method {
						seen++
					}
				}
				if counted := int(after.Requests[method] - before.Requests[method]); counted != seen {
					t.Errorf("Stats counts %d %s, %d were sent", counted, method, seen)
				}
			}
		})
	}
}

// Stats counts notifications, rows and resolutions where they happen.
func TestStats(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	var heard []string
	remove := env.Client.OnNotify(func(n percolator.Notification) { heard = append(heard, n.Cell.Column) })
	tx := mustBegin(t, ctx, c)
	must(t, tx.Set(cell("a", "seen"), []byte("v")))
	must(t, tx.Set(cell("a", "c"), []byte("v")))
	must(t, tx.Notify(cell("b", "poke")))
	mustCommit(t, ctx, tx)
	must(t, c.Flush(ctx))
	must(t, update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(cell("a", "seen")) }))
	remove()
	must(t, update(ctx, c, func(tx *percolator.Txn) error { return tx.Set(cell("a", "seen"), nil) }))
	if fmt.Sprint(heard) != "[seen poke seen]" {
		t.Errorf("heard %v", heard)
	}
	s := c.Stats()
	if s.Transactions != 3 || s.Notifications != 4 || s.Conflicts != 0 || s.Aborts != 0 {
		t.Errorf("counted %+v", s)
	}
	if n := cellsOf(t, ctx, env, "t", "notify"); int64(n) != s.Notifications {
		t.Errorf("%d notify cells stored, %d counted", n, s.Notifications)
	}
	if s.RowsMutated != 2*3+1 {
		t.Errorf("%d rows mutated, want 7", s.RowsMutated)
	}
}
