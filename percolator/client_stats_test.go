package percolator_test

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// Stats counts notifications, rows and resolutions where they happen.
func TestStatsCountWhereThingsHappen(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	var heard []string
	remove := env.Client.Engine().Dispatch.HandleNotify(func(n model.Notification) bool { heard = append(heard, n.Cell.Column); return false })
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("a", "seen"), []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("v")))
	fixture.Must(t, tx.Notify(fixture.Cell("b", "poke")))
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx))
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("a", "seen")) }))
	remove()
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Set(fixture.Cell("a", "seen"), nil) }))
	if fmt.Sprint(heard) != "[seen poke seen]" {
		t.Errorf("heard %v", heard)
	}
	s, journal := c.Stats(), env.FaultsOf(c).JournalRequests()
	for int64(len(journal)) != s.Requests["MutateRows"]-1 { // a low position was written between
		s, journal = c.Stats(), env.FaultsOf(c).JournalRequests()
	}
	if s.Transactions != 3 || s.Notifications != 4 || s.Conflicts != 0 || s.Aborts != 0 {
		t.Errorf("counted %+v", s)
	}
	if n := fixture.CellsOf(t, ctx, env, "t", "notify"); int64(n) != s.Notifications {
		t.Errorf("%d notify cells stored, %d counted", n, s.Notifications)
	}
	if want := int64(2*3 + 1 + len(journal)); s.RowsMutated != want || batches(journal) != 3 {
		t.Errorf("%d rows mutated, want %d, %d appends among them", s.RowsMutated, want, batches(journal))
	}
}
