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
)

// These tests suspend the machine of a watcher with a name: the oracle's clock goes on, and that of
// its process stands still (I16).

// nameForAnHour is a watcher whose hold lasts for an hour.
func nameForAnHour() watch.Config {
	cfg := config(0).Within(1, time.Second)
	cfg.Name, cfg.HoldTTL, cfg.Interval = "n", time.Hour, time.Second
	return cfg
}

func collectNow(t *testing.T, ctx context.Context, env *percolatortest.Env) {
	t.Helper()
	collector, err := admin.New(env.NewClient(percolatortest.Configure(withRetention))).NewCollector(admin.CollectorConfig{})
	fixture.Must(t, err)
	_, err = collector.Collect(ctx)
	fixture.Must(t, err)
}

// The hold outlives the watcher by HoldTTL, or nearly, also where the watcher goes on for a moment
// after its machine was suspended for most of that time.
func TestHoldOfASuspendedMachineIsRenewed(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour)
		defer cancel()
		env := fixture.NewEnv(t, percolatortest.Configure(withRetention))
		client := func() *percolator.Client { return env.NewClient(percolatortest.Configure(withRetention)) }
		f := follow(t, ctx, client(), nameForAnHour())
		time.Sleep(time.Minute)
		f.reaches(t, fixture.Put(t, ctx, env.Client, "a", "c", "1"), "a.c=1")
		env.Clock.Advance(55 * time.Minute)
		f.reaches(t, fixture.Put(t, ctx, env.Client, "a", "c", "2"), "a.c=1 a.c=2")
		time.Sleep(10 * time.Second)
		f.cancel()
		<-f.done
		fixture.Put(t, ctx, env.Client, "b", "c", "1")
		last := fixture.Put(t, ctx, env.Client, "b", "c", "2")
		time.Sleep(45 * time.Minute)
		collectNow(t, ctx, env)
		if got, _ := until(t, ctx, client(), nameForAnHour(), last); shown(got) != "b.c=1 b.c=2" {
			t.Errorf("%s", shown(got))
		}
	})
}

// A watcher whose hold has expired while its machine was suspended finds out before it hands out
// more: it takes another hold, or, if collection has come by, it is refused.
func TestExpiredHoldOfASuspendedMachine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		collect bool
		want    string
	}{
		"before collection": {false, "r000.c=v r001.c=v r002.c=v"},
		"after collection":  {true, "r000.c=v"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour)
				defer cancel()
				env := fixture.NewEnv(t, percolatortest.Configure(withRetention))
				cfg := nameForAnHour()
				cfg.From = watch.At(now(t, ctx, env.Oracle))
				last := fixture.Put(t, ctx, env.Client, key(0), "c", "v")
				for i := range 2 {
					time.Sleep(time.Second)
					last = fixture.Put(t, ctx, env.Client, key(i+1), "c", "v")
				}
				var got []watch.Change
				var refused error
				for b, err := range watch.Changes(ctx, env.NewClient(percolatortest.Configure(withRetention)), cfg) {
					if refused = err; len(got) == 0 && len(b.Changes) > 0 {
						env.Clock.Advance(2 * time.Hour)
						if c.collect {
							collectNow(t, ctx, env)
						}
					}
					if got = append(got, b.Changes...); b.Position.Timestamp() >= last {
						break
					}
				}
				if shown(got) != c.want {
					t.Errorf("%s, want %s", shown(got), c.want)
				}
				if c.collect {
					fixture.WantErr(t, refused, percolator.ErrSnapshotTooOld)
				} else {
					fixture.Must(t, refused)
				}
			})
		})
	}
}
