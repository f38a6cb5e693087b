package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What an operator does to notifications is in the journal before the rows change (J2): without an
// acknowledged entry nothing of it happens.
func TestOperatorsChangeNothingWithoutAnEntry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		column string // of the cell that is parked
		change func(context.Context, *admin.Admin, model.ObserverState) error
	}{
		"retry": {"poke", func(ctx context.Context, a *admin.Admin, s model.ObserverState) error { return a.RetryParked(ctx, s) }},
		"drop":  {"poke", func(ctx context.Context, a *admin.Admin, s model.ObserverState) error { return a.DropParked(ctx, s) }},
		"forget": {"seen", func(ctx context.Context, a *admin.Admin, _ model.ObserverState) error {
			return fixture.ErrOf(a.ForgetObserver(ctx, "t", "seen", "O", admin.ObserverOptions{}))
		}},
		"backfill": {"poke", func(ctx context.Context, a *admin.Admin, _ model.ObserverState) error {
			return fixture.ErrOf(a.BackfillObserver(ctx, "t", "seen", "O", admin.ObserverOptions{}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := fixture.NewCollectorEnv(t)
			ctx, c := fixture.Context(t), env.Client
			fixture.Put(t, ctx, c, "r", "seen", "v")
			fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell("r", "poke")) }))
			now, err := c.Engine().Clock.Next(ctx)
			fixture.Must(t, err)
			parked := model.ObserverState{Cell: fixture.Cell("r", test.column), Observer: "O", Through: now, Attempts: 3, Observers: []string{"O"}}
			fixture.Must(t, errors.Join(c.Engine().Commits.SetObserverStates(ctx, parked), c.Flush(ctx)))
			before := cellsIn(t, ctx, env, "r", "notify")
			operator := env.NewClient()
			env.FaultsOf(operator).HandleJournal(func(percolatortest.Request) percolatortest.Action { return percolatortest.Crash })
			if err := test.change(ctx, admin.New(operator), parked); err == nil || !env.FaultsOf(operator).Crashed() {
				t.Errorf("it has succeeded: %v", err)
			}
			if after := cellsIn(t, ctx, env, "r", "notify"); len(before) != 3 || !slices.Equal(after, before) {
				t.Errorf("the notify cells are %q, were %q", after, before)
			}
		})
	}
}

// cellsIn is the columns and timestamps of what a row of table t holds in a family.
func cellsIn(t *testing.T, ctx context.Context, env *percolatortest.Env, key, family string) (cells []string) {
	t.Helper()
	row, err := env.Store().Open("t").ReadRow(ctx, key, bigtable.RowFilter(bigtable.FamilyFilter(family)))
	fixture.Must(t, err)
	for _, it := range row[family] {
		cells = append(cells, fmt.Sprint(it.Column, it.Timestamp))
	}
	return cells
}
