package percolator_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Pauses after conflicts follow the attempts that they come after: one request that took long
// before, as in an outage, slows nobody down whose attempts are fast again.
func TestPausesForgetAnOutage(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const commits, clients = 40, 3
		took := func(outage bool) time.Duration {
			env, ctx := fixture.NewEnv(t), fixture.Context(t)
			all := []*percolator.Client{env.Client, env.NewClient(), env.NewClient()}
			if outage {
				for _, c := range all {
					held := percolatortest.NewHold()
					first := true
					env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
						if first && fixture.IsPrewrite(r) {
							first = false
							return held.Answer()
						}
						return percolatortest.Pass
					})
					done := make(chan error, 1)
					go func() {
						done <- fixture.ErrOf(c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(fixture.Cell("own", "c"), nil) }))
					}()
					held.Wait(t, 1)
					time.Sleep(20 * time.Second)
					held.Release()
					fixture.Must(t, <-done)
				}
			}
			started := time.Now()
			var working sync.WaitGroup
			for _, c := range all[:clients] {
				working.Go(func() {
					for range commits {
						_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error { return add(ctx, tx, "shared") })
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			working.Wait()
			return time.Since(started)
		}
		calm := took(false)
		if after := took(true); after > 3*calm+time.Second {
			t.Errorf("%d commits of each of %d clients take %v after an outage, %v without", commits, clients, after, calm)
		}
	})
}
