package gc_test

import (
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A client appends to a stream whose header is gone, and dies: the next cycle leads workers to what
// it has notified, also while a hold keeps collection where it is.
func TestHeaderlessStreamsAreListedDuringAHold(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewCollectorEnv(t)
		ctx := fixture.Context(t)
		_, err := admin.New(env.Client).TakeHold(ctx, 0, model.MaxHoldTTL, "")
		fixture.Must(t, err)
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, env.Client)
		c := env.NewClient(fixture.ShortRetention)
		fixture.Put(t, ctx, c, "r", "seen", "v")
		env.FaultsOf(c).Crash()
		fixture.LoseHeaders(t, ctx, env)
		for range 2 { // the first may have to end a cycle
			fixture.Collect(t, ctx, env.NewClient(fixture.ShortRetention))
		}
		s := env.NewClient().Engine().Store
		with, err := journal.Streams(ctx, s)
		fixture.Must(t, err)
		all, err := journal.AllStreams(ctx, s)
		if fixture.Must(t, err); len(with) == 0 || len(with) != len(all) {
			t.Errorf("%d of %d streams are listed", len(with), len(all))
		}
	})
}

// Clients commit and die before phase two, their primaries are overwritten, and the headers of all
// streams are lost with their low positions. Two collectors at once remove the primaries' records:
// every secondary was resolved before, so each transaction is there as a whole (J6).
func TestCollectionKeepsTransactionsOfHeaderlessStreamsWhole(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCollectionKeepsTransactionsOfHeaderlessStreamsWhole)
}

func testCollectionKeepsTransactionsOfHeaderlessStreamsWhole(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	const clients, secondaries = 8, 5
	primary := func(i int) percolator.Cell { return fixture.Cell(fmt.Sprint("primary-", i), "c") }
	secondary := func(i, j int) percolator.Cell { return fixture.Cell(fmt.Sprint("secondary-", i, "-", j), "c") }
	for i := range clients {
		cells := []percolator.Cell{primary(i)}
		for j := range secondaries {
			cells = append(cells, secondary(i, j))
		}
		fixture.Strand(t, ctx, env, cells...)
	}
	fixture.LoseHeaders(t, ctx, env)
	for i := range clients {
		fixture.Put(t, ctx, env.Client, primary(i).Row, "c", "2")
	}
	env.Clock.Advance(fixture.PastRetention)
	done := make(chan error, 2)
	for range cap(done) {
		g := fixture.NewCollector(t, env.NewClient(fixture.ShortRetention), model.CollectorConfig{})
		go func() { _, err := g.Collect(ctx); done <- err }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Logf("a collector: %v", err)
		}
	}
	fixture.Collect(t, ctx, env.NewClient(fixture.ShortRetention))
	for i := range clients {
		fixture.WantNow(t, ctx, env.Client, primary(i), "2")
		for j := range secondaries {
			fixture.WantNow(t, ctx, env.Client, secondary(i, j), "stranded")
		}
	}
	env.Audit(t, fixture.Collected)
}
