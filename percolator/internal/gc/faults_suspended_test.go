package gc_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var suspensions = flag.Int("suspensions", 10, "of the collector, each after another request, in TestCollectorSuspendedAfterAnyRequest")

// A collector that is suspended after any of its requests, for longer than its lease, while another
// one takes over and clients go on, does no harm when it continues.
func TestCollectorSuspendedAfterAnyRequest(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	n := 0
	percolatortest.Bubble(t, func(t *testing.T) { n = suspendCollection(t, -1) })
	if n < 20 {
		t.Fatalf("%d requests", n)
	}
	step := max(1, n / *suspensions)
	for at := rand.IntN(step); at < n; at += step {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { suspendCollection(t, at) })
		})
	}
}

func suspendCollection(t *testing.T, at int) int {
	env := fixture.NewCollectorEnv(t, func(s *percolator.Schema) { s.Timing.RequestLifetime = time.Second })
	ctx := fixture.Context(t)
	writeGarbage(t, ctx, env)
	first, second := env.NewClient(fixture.ShortRetention), env.NewClient(fixture.ShortRetention)
	var sent atomic.Int64
	paused := make(chan struct{}, 1)
	numbered(env, first, func(seq int, _ string) percolatortest.Action {
		if sent.Add(1); seq == at {
			env.FaultsOf(first).Pause()
			paused <- struct{}{}
		}
		return percolatortest.Pass
	})
	done := make(chan error, 1)
	go func() {
		_, err := fixture.NewCollector(t, first, model.CollectorConfig{Lease: time.Second}).Collect(ctx)
		done <- err
	}()
	if at >= 0 {
		select {
		case <-paused:
		case err := <-done:
			t.Skipf("the collector ended after %d requests, before the one it is suspended at: %v", sent.Load(), err)
		}
		env.Clock.Advance(1100 * time.Millisecond)
		other := make(chan error, 1)
		go func() {
			_, err := fixture.NewCollector(t, second, model.CollectorConfig{Lease: time.Second}).Collect(ctx)
			other <- err
		}()
		fixture.Put(t, ctx, env.Client, "gone", "c", "again", "back too", "seen", "x")
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("forward", "c")) }))
		fixture.CrashAfter(t, env, fixture.IsCommit, "later", "later too")
		select {
		case err := <-other:
			t.Logf("the other ended: %v", err)
			other <- err
		case <-time.After(750 * time.Millisecond):
		}
		env.FaultsOf(first).Resume()
		t.Logf("the other: %v", <-other)
	}
	if err := <-done; at < 0 {
		fixture.Must(t, err)
	} else if err != nil {
		t.Logf("the first: %v", err)
	}
	want := map[string]string{"kept": "4", "rolled back": "", "back too": "", "forward": "crashed", "forward too": "crashed"}
	if at >= 0 {
		want["gone"], want["forward"], want["later"], want["later too"] = "again", "", "crashed", "crashed"
	}
	for range 2 {
		last := env.NewClient(fixture.ShortRetention)
		for row, v := range want {
			fixture.WantNow(t, ctx, last, fixture.Cell(row, "c"), v)
		}
		for row := range want { // a marker of a process that was stopped has no entry (J8)
			fixture.Must(t, fixture.Update(ctx, last, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell(row, "other")) }))
		}
		env.Clock.Advance(fixture.PastRetention)
		fixture.Collect(t, ctx, last)
	}
	env.Audit(t, fixture.Collected, skipNotifications)
	return int(sent.Load())
}
