package percolator_test

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator"
)

// telemetryCost returns a function that does all that a transaction does for telemetry.
func telemetryCost(c *percolator.Client) func() {
	ctx, started, st := context.Background(), time.Now(), c.Engine().Store
	return func() {
		for op := telemetry.OpBegin; op <= telemetry.OpOracle; op++ {
			st.Count.Latency[op].Add(time.Since(started))
			st.Metrics.Request(ctx, op, "t", time.Since(started), nil)
			st.Metrics.Read(ctx, op, "t", time.Since(started), nil)
		}
		sctx, span := st.Trace.Start(ctx, "percolator.get", "t")
		span.Count("percolator.rows", 1)
		span.Timestamp("percolator.start_timestamp", 1)
		span.Conflict(nil)
		st.Trace.Current(sctx).Event("percolator.lock.resolved", "t", "rolled_back")
		span.End(nil)
		st.Metrics.OracleRequest(ctx, time.Since(started), nil)
		st.Metrics.Transaction(ctx, 1, nil)
		st.Metrics.Attempted(ctx, 1, nil)
		st.Metrics.Phase(ctx, "prewrite", started, nil)
		st.Metrics.Batch(ctx, telemetry.OpReadRows, "t", 1)
	}
}
