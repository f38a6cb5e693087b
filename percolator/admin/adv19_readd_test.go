package admin_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The backfill of an index is broken off, the index is dropped, and added again. Its backfill
// begins at the beginning.
func TestBackfillOfAnIndexThatWasDroppedAndAddedAgain(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.Client
	for i := range 20 {
		setPeople(t, ctx, c, fixture.City, fmt.Sprintf("p%02d", i), "Rome")
	}
	addIndexes(t, ctx, env, c, "city")
	broken, stop := context.WithCancel(ctx)
	opts := atOnce
	opts.Concurrency, opts.RowsPerTransaction, opts.SaveEvery = 1, 1, 1
	opts.Progress = func(p admin.BackfillProgress) {
		if p.Cells >= 10 {
			stop()
		}
	}
	_, err := admin.New(c).BackfillIndex(broken, "people", "city", opts)
	fixture.WantErr(t, err, context.Canceled)
	_, err = admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), noWait(env))
	fixture.Must(t, err)
	addIndexes(t, ctx, env, c, "city")
	report, err := admin.New(c).BackfillIndex(ctx, "people", "city", atOnce)
	fixture.Must(t, err)
	t.Logf("%+v", report)
	wantRight(t, ctx, c, "city")
}
