package percolator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A snapshot that may be stale costs no request to the oracle while the client has a timestamp that
// is new enough, contains what this client has committed, and is as old as it may be, not older.
func TestMaxStaleness(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	c, other := env.Client, env.NewClient()
	asked := func() int { return fixture.Tally(env, c)["Oracle"] }

	committed := fixture.Put(t, ctx, c, "r", "c", "mine")
	before := asked()
	s, err := c.Snapshot(ctx, percolator.MaxStaleness(time.Hour))
	fixture.Must(t, err)
	fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "mine")
	if n := asked() - before; n != 0 || s.StartTimestamp() < committed {
		t.Errorf("%d requests to the oracle; the snapshot is at %d, the commit was at %d", n, s.StartTimestamp(), committed)
	}

	fixture.Put(t, ctx, other, "r", "c", "another's")
	fixture.Must(t, c.View(ctx, func(_ context.Context, s *percolator.Snapshot) error {
		fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "mine") // committed less than an hour ago
		return nil
	}, percolator.MaxStaleness(time.Hour)))

	for _, d := range []time.Duration{0, time.Nanosecond} {
		before := asked()
		s, err := c.Snapshot(ctx, percolator.MaxStaleness(d))
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "another's")
		if n := asked() - before; n != 1 {
			t.Errorf("%d requests to the oracle for a snapshot that may be %v old", n, d)
		}
	}
	for _, opts := range [][]percolator.ReadOption{
		{percolator.MaxStaleness(-time.Second)},
		{percolator.MaxStaleness(time.Second), percolator.AsOf(time.Now())},
	} {
		_, err := c.Snapshot(ctx, opts...)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	}
	fixture.Must(t, c.Close())
	if s, err := c.Snapshot(ctx, percolator.MaxStaleness(time.Hour)); err == nil {
		t.Errorf("a snapshot of a closed client, at %d", s.StartTimestamp())
	}
}

// A client that was idle while collection passed its newest timestamp takes another one.
func TestMaxStalenessOfWhatWasCollected(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testMaxStalenessOfWhatWasCollected)
}

func testMaxStalenessOfWhatWasCollected(t *testing.T) {
	ctx, schema := fixture.Context(t), fixture.Schema()
	schema.Timing = percolator.Timing{RequestLifetime: 500 * time.Millisecond, MetaMaxAge: 500 * time.Millisecond} // for collection
	env := percolatortest.New(t, schema)
	idle := env.NewClient()
	committed := fixture.Put(t, ctx, idle, "r", "c", "v")
	env.Clock.Advance(2 * time.Hour)
	fixture.Collect(t, ctx, env.Client)
	_, err := idle.Engine().Meta.Refresh(ctx) // as it does every now and then
	fixture.Must(t, err)
	for range 2 {
		s, err := idle.Snapshot(ctx, percolator.MaxStaleness(time.Hour))
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, fixture.Cell("r", "c"), "v")
		if at := s.StartTimestamp(); at.Sub(committed) < 2*time.Hour {
			t.Errorf("the snapshot is at %v, the commit was at %v", at.Time(), committed.Time())
		}
	}
}

// Whatever others of the same client do meanwhile, a stale snapshot has what was committed before
// it was asked for.
func TestMaxStalenessReadsOwnCommits(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			at := fixture.Cell(fixture.Key(i), "c")
			for n := range 20 {
				want := fmt.Sprint(n)
				if err := fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Set(at, []byte(want)) }); err != nil {
					t.Error(err)
					return
				}
				s, err := env.Client.Snapshot(ctx, percolator.MaxStaleness(time.Hour))
				if err != nil {
					t.Error(err)
					return
				}
				fixture.WantValue(t, ctx, s, at, want)
			}
		})
	}
	wg.Wait()
}
