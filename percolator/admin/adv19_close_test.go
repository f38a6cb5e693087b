package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A backfill comes to its end after the drop of its index has closed it for reads. Readers must not
// find it open when writers maintain it no more.
func TestBackfillThatEndsWhileItsIndexIsBeingDropped(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c, reader := fixture.Context(t), env.Client, env.NewClient()
	setPeople(t, ctx, c, fixture.City, "ann", "Rome", "bob", "Bern")
	addIndexes(t, ctx, env, c, "city")
	waits := 0
	opts := noWait(env)
	opts.Wait = func(context.Context, time.Duration) error {
		switch waits++; waits {
		case 1: // closed; nobody reads it when this wait is over
			_, err := admin.New(env.NewClient()).BackfillIndex(ctx, "people", "city", atOnce)
			t.Logf("backfill: %v", err)
			// The reader learns what there is, as all do within the wait.
			fixture.WantErr(t, fixture.ErrOf(admin.New(reader).VerifyIndex(ctx, "people", "no such index", admin.VerifyIndexOptions{})), percolator.ErrSchemaMismatch)
		case 2: // no writer that knows maintains it
			setPeople(t, ctx, c, fixture.City, "ann", "Oslo")
			s, err := reader.Snapshot(ctx)
			fixture.Must(t, err)
			for e, err := range s.ScanIndex(ctx, "people", "city", percolator.All()) {
				if err != nil {
					t.Logf("refused, as it has to be: %v", err)
					break
				}
				fixture.WantValue(t, ctx, s, e.Cell, string(e.Value))
			}
		}
		return nil
	}
	_, err := admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), opts)
	fixture.Must(t, err)
}
