package percolator_test

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// Stats counts notifications, rows and resolutions where they happen.
func TestStats(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx, c := testContext(t), env.Client
	var heard []string
	remove := env.Client.Engine().Dispatch.HandleNotify(func(n admin.Notification) bool { heard = append(heard, n.Cell.Column); return false })
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
