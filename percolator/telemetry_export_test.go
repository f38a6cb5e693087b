package percolator

import (
	"context"
	"time"
)

// TelemetryCost returns a function that does all that a transaction does for telemetry.
func TelemetryCost(c *Client) func() {
	ctx, begun := context.Background(), time.Now()
	return func() {
		for op := range operations {
			c.store.took(ctx, op, "t", begun, nil)
			c.tookRead(ctx, op, "t", begun, nil)
		}
		sctx, span := c.trace.start(ctx, "percolator.get", "t")
		span.count("percolator.rows", 1)
		span.timestamp("percolator.start_timestamp", 1)
		span.conflict(nil)
		c.trace.current(sctx).event("percolator.lock.resolved", "t", "rolled_back")
		span.end(nil)
		c.tookOracle(ctx, begun, nil)
		c.store.metrics.transaction(ctx, 1, nil)
		c.store.metrics.attempted(ctx, 1, nil)
		c.store.metrics.phase(ctx, "prewrite", begun, nil)
		c.store.metrics.batch(ctx, opReadRows, "t", 1)
	}
}
