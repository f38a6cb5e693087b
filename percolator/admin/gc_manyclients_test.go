package admin_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Some 25,000 clients that committed once each between two cycles: a share of the collection is
// longer than what a filter can hold twice, and yet it is taken, saved and ended.
func TestCollectionAfterThousandsOfClients(t *testing.T) {
	t.Parallel()
	env := newCollectorEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "r", "c", "old")
	fixture.CopyStreams(t, ctx, env, 400)
	fixture.Put(t, ctx, c, "r", "c", "new")
	env.Clock.Advance(afterwards)
	begun := time.Now()
	_, err := collector(t, c, admin.CollectorConfig{RowsPerSecond: 1_000_000}).Collect(ctx)
	fixture.Must(t, err)
	t.Log(time.Since(begun))
	if rows, _ := streamsLeft(t, ctx, env); rows > 0 {
		t.Errorf("%d rows of streams are left", rows)
	}
	env.Audit(t, func(cfg *percolatortest.AuditConfig) { cfg.Collected = true })
}
