package percolator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// A snapshot that may be stale costs no request to the oracle while the client has a timestamp that is new enough, contains
// what this client has committed, and is as old as it may be, not older.
func TestMaxStaleness(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	env := newEnv(t)
	c, other := env.Client, env.NewClient()
	asked := func() int { return tally(env, c)["Oracle"] }

	committed := put(t, ctx, c, "r", "c", "mine")
	before := asked()
	s, err := c.Snapshot(ctx, percolator.MaxStaleness(time.Hour))
	must(t, err)
	wantValue(t, ctx, s, cell("r", "c"), "mine")
	if n := asked() - before; n != 0 || s.StartTimestamp() < committed {
		t.Errorf("%d requests to the oracle; the snapshot is at %d, the commit was at %d", n, s.StartTimestamp(), committed)
	}

	put(t, ctx, other, "r", "c", "another's")
	must(t, c.View(ctx, func(_ context.Context, s *percolator.Snapshot) error {
		wantValue(t, ctx, s, cell("r", "c"), "mine") // committed less than an hour ago
		return nil
	}, percolator.MaxStaleness(time.Hour)))

	for _, d := range []time.Duration{0, time.Nanosecond} {
		before := asked()
		s, err := c.Snapshot(ctx, percolator.MaxStaleness(d))
		must(t, err)
		wantValue(t, ctx, s, cell("r", "c"), "another's")
		if n := asked() - before; n != 1 {
			t.Errorf("%d requests to the oracle for a snapshot that may be %v old", n, d)
		}
	}
	for _, opts := range [][]percolator.ReadOption{
		{percolator.MaxStaleness(-time.Second)},
		{percolator.MaxStaleness(time.Second), percolator.AsOf(time.Now())},
	} {
		_, err := c.Snapshot(ctx, opts...)
		wantErr(t, err, percolator.ErrInvalidArgument)
	}
	must(t, c.Close())
	if s, err := c.Snapshot(ctx, percolator.MaxStaleness(time.Hour)); err == nil {
		t.Errorf("a snapshot of a closed client, at %d", s.StartTimestamp())
	}
}

// Whatever others of the same client do meanwhile, a stale snapshot has what was committed before it was asked for.
func TestMaxStalenessReadsOwnCommits(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	env := newEnv(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			at := cell(key(i), "c")
			for n := range 20 {
				want := fmt.Sprint(n)
				if err := update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Set(at, []byte(want)) }); err != nil {
					t.Error(err)
					return
				}
				s, err := env.Client.Snapshot(ctx, percolator.MaxStaleness(time.Hour))
				if err != nil {
					t.Error(err)
					return
				}
				wantValue(t, ctx, s, at, want)
			}
		})
	}
	wg.Wait()
}
