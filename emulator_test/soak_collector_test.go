package emulator_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// collect runs one cycle after the other. Before each the oracle's clock jumps over the retention,
// so that almost everything is old.
func (s *soaking) collect(ctx context.Context, _ *slot, c *percolator.Client, r *rand.Rand) {
	g, err := admin.New(c).NewCollector(collectorConfig())
	if err != nil {
		s.problem("%v", err)
		return
	}
	for ctx.Err() == nil {
		s.env.Clock.Advance(60*time.Second + time.Duration(r.Int64N(int64(20*time.Second))))
		col, err := g.Collect(ctx)
		s.tally.collected(col, err)
		pause(ctx, time.Duration(r.Int64N(int64(300*time.Millisecond))))
	}
}

func collectorConfig() admin.CollectorConfig {
	return admin.CollectorConfig{Interval: time.Second, Lease: time.Second, RowsPerSecond: 1_000_000}
}

// collectAll runs a cycle that has everything to itself, a sweep for what dead clients have left
// without an entry (J8), and another cycle, so that nothing unreferenced may be left. Of settled
// notifications that a late copy of a request has set again there may be repeated, for the sweep to
// find.
func (s *soaking) collectAll(ctx context.Context, c *percolator.Client, repeated int) {
	operator := admin.New(c)
	g, err := operator.NewCollector(collectorConfig())
	if err != nil {
		s.Fatal(err)
	}
	sweeper, err := operator.NewSweeper(model.SweepConfig{RowsPerSecond: 1_000_000})
	if err != nil {
		s.Fatal(err)
	}
	cycle := func() {
		col, err := g.Collect(ctx)
		if err != nil || col.Postponed > 0 || col.Corrupt > 0 || col.Dispatched > 0 && repeated == 0 {
			s.problem("the last collection: %+v, %v", col, err)
		}
		s.tally.collected(col, err)
	}
	s.env.Clock.Advance(20 * time.Minute) // holds have expired
	cycle()
	s.env.Clock.Advance(2 * time.Hour) // what is left is old
	if done, err := sweeper.Sweep(ctx); err != nil || done.Missed.Sum() > int64(repeated) || done.Corrupt > 0 {
		s.problem("the sweep: %+v, %v", done, err)
	}
	s.env.Clock.Advance(20 * time.Minute)
	cycle()
}
