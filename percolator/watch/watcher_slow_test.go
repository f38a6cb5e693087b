package watch_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

// A consumer that is slower than the retention is told so, and not given less.
func TestSlowConsumer(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour)
		defer cancel()
		env := fixture.NewEnv(t, percolatortest.Configure(withRetention))
		collector, err := admin.New(env.NewClient(percolatortest.Configure(withRetention))).NewCollector(admin.CollectorConfig{})
		fixture.Must(t, err)
		from := now(t, ctx, env.Oracle)
		var last tso.Timestamp
		for i := range 5 {
			last = fixture.Put(t, ctx, env.Client, key(i), "c", "v")
			time.Sleep(time.Second)
		}
		n := 0
		for b, err := range watch.Changes(ctx, env.NewClient(percolatortest.Configure(withRetention)), config(from).Within(1, time.Second)) {
			if err != nil {
				fixture.WantErr(t, err, percolator.ErrSnapshotTooOld)
				break
			}
			if n += len(b.Changes); b.Position.Timestamp() >= last {
				t.Fatal("nothing was refused")
			}
			if n > 0 {
				time.Sleep(2 * modelRetention)
				_, err := collector.Collect(ctx)
				fixture.Must(t, err)
			}
		}
		if n == 0 || n == 5 {
			t.Errorf("%d changes before the error", n)
		}
	})
}
