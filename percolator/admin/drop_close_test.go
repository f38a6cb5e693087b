package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
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
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome", "bob", "Bern")
	addIndexes(t, ctx, env, c, "city")
	scan := func() error {
		s, err := reader.Snapshot(ctx)
		fixture.Must(t, err)
		for e, err := range s.ScanIndex(ctx, "people", "city", percolator.All()) {
			if err != nil {
				return err
			}
			fixture.WantValue(t, ctx, s, e.Cell, string(e.Value))
		}
		return nil
	}
	closes, phase := 0, admin.DropPhase("")
	opts := noWait(env)
	opts.Progress = func(p admin.DropPhase) {
		if phase = p; p == admin.DropClose {
			closes++
		}
	}
	opts.Wait = func(context.Context, time.Duration) error {
		switch {
		case phase == admin.DropClose:
			if closes == 1 {
				fixture.Must(t, fixture.ErrOf(admin.New(env.NewClient()).BackfillIndex(ctx, "people", "city", atOnce)))
			}
			// The reader learns what there is, as all do within the wait.
			fixture.WantErr(t, fixture.ErrOf(admin.New(reader).VerifyIndex(ctx, "people", "no such index", admin.VerifyIndexOptions{})), percolator.ErrSchemaMismatch)
			if closes == 1 {
				fixture.Must(t, scan())
			}
		case phase == admin.DropDrain: // no writer that knows maintains it
			fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Oslo")
			fixture.WantErr(t, scan(), percolator.ErrSchemaMismatch)
		}
		return nil
	}
	_, err := admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), opts)
	fixture.Must(t, err)
	if closes != 2 {
		t.Errorf("the index was closed %d times", closes)
	}
}
