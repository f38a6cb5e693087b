package sweep_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A sweep that builds the journal cannot resolve a lock in time whose transaction has no entry. A
// drop of the table with its primary resolves it first, by the entry that the sweep has written for
// the row (I26).
func TestOldLockIsResolvedBeforeADrop(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testOldLockIsResolvedBeforeADrop)
}

func testOldLockIsResolvedBeforeADrop(t *testing.T) {
	s := fixture.JournalSchema(true)
	s.Tables = append(s.Tables, percolator.Table{Name: "z"})
	env := percolatortest.New(t, s, fixture.ShortRetention)
	ctx, c := fixture.Context(t), env.NewClient(fixture.ShortRetention)
	secondary := percolator.Cell{Table: "z", Row: "s", Column: "c"}
	fixture.Strand(t, ctx, env, fixture.Cell("p", "c"), secondary)
	if n := fixture.CellsOf(t, ctx, env, "z", "lock"); n != 1 {
		t.Fatalf("%d locks", n)
	}
	var swept atomic.Bool
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Row == "s" && r.Method == percolatortest.CheckAndMutateRow && !swept.Load() {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	on := *s
	on.DisableJournal = false
	fixture.Apply(t, ctx, env, &on)
	w, err := admin.New(c).NewSweeper(model.SweepConfig{Lease: 20 * time.Second})
	fixture.Must(t, err)
	for {
		done, err := w.Sweep(ctx)
		if fixture.Must(t, ctx.Err()); err == nil && done.Locks == 0 {
			break
		}
	}
	left := on
	left.Tables = slices.DeleteFunc(slices.Clone(on.Tables), func(table percolator.Table) bool { return table.Name == "t" })
	without := admin.DropOptions{ClientOptions: env.Options(), Wait: func(context.Context, time.Duration) error { return nil }}
	fixture.Must(t, fixture.ErrOf(admin.New(env.Client).DropFromSchema(ctx, &left, without)))
	swept.Store(true)
	fixture.WantNow(t, ctx, env.Client, secondary, "stranded")
}
