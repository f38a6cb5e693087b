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

// A client that is idle but for snapshots with MaxStaleness scans an index that was completed after
// its newest timestamp: a new timestamp would do.
func TestMaxStalenessBesideABackfill(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	idle := env.NewClient()
	fixture.SetPeople(t, ctx, env.Client, fixture.City, "ann", "Oslo")
	fixture.Must(t, fixture.ErrOf(idle.Snapshot(ctx))) // its newest timestamp
	addIndexes(t, ctx, env, env.Client, "city")
	fixture.Must(t, fixture.ErrOf(admin.New(env.Client).BackfillIndex(ctx, "people", "city", atOnce)))
	fixture.Must(t, fixture.ErrOf(idle.Engine().Meta.Refresh(ctx))) // as it does every now and then
	for range 2 {
		found := 0
		err := idle.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			for _, err := range s.ScanIndex(ctx, "people", "city", percolator.All()) {
				if err != nil {
					return err
				}
				found++
			}
			return nil
		}, percolator.MaxStaleness(time.Hour))
		if err != nil || found != 1 {
			t.Errorf("a snapshot that may be an hour old: %d entries, %v", found, err)
		}
	}
}
