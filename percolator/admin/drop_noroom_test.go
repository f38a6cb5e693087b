package admin_test

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A drop for which there is no room does not begin: its index stays open for reads.
func TestDropWithoutRoomLeavesIndexesOpen(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.Client
	fixture.SetPeople(t, ctx, c, fixture.City, "ann", "Rome")
	addIndexes(t, ctx, env, c, "city")
	fixture.Must(t, fixture.ErrOf(admin.New(env.NewClient()).BackfillIndex(ctx, "people", "city", atOnce)))
	fixture.Plant(t, ctx, env, "percolator_meta", "meta", "meta", "dropped", 1000, `{"`+strings.Repeat("n", 10<<20-20)+`":{"At":5}}`)
	_, err := admin.New(c).DropFromSchema(ctx, peopleSchema(c.Schema().Timing), noWait(env))
	fixture.WantErr(t, err, percolator.ErrTooLarge)
	s, err := env.NewClient().Snapshot(ctx)
	fixture.Must(t, err)
	found := 0
	for _, err := range s.ScanIndex(ctx, "people", "city", percolator.All()) {
		fixture.Must(t, err)
		found++
	}
	if found != 1 {
		t.Errorf("the index has %d entries", found)
	}
}
