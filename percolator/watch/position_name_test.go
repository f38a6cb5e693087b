package watch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
)

// A name keeps the position of what was dealt with, and a hold beneath it that keeps collection
// off; without one a consumer that is too slow is refused.
func TestNameKeepsItsPosition(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testNameKeepsItsPosition)
}

func testNameKeepsItsPosition(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour)
	defer cancel()
	env := fixture.NewEnv(t, percolatortest.Configure(withRetention))
	client := func() *percolator.Client { return env.NewClient(percolatortest.Configure(withRetention)) }
	cfg := config(0)
	cfg.Name, cfg.HoldTTL, cfg.Interval = "n", time.Hour, time.Second
	first, stop := context.WithCancel(ctx)
	f := follow(t, first, client(), cfg)
	time.Sleep(time.Minute)
	for i := range 3 {
		ts := fixture.Put(t, ctx, env.Client, key(i), "c", "v")
		fixture.Eventually(t, "a change", func() bool { _, at, _ := f.seen(); return at >= ts })
	}
	stop()
	<-f.done
	unnamed := f.at
	fixture.Put(t, ctx, env.Client, key(3), "c", "v")
	last := fixture.Put(t, ctx, env.Client, key(3), "c", "w")
	collector, err := admin.New(client()).NewCollector(admin.CollectorConfig{})
	fixture.Must(t, err)
	for range 3 { // the retention passes, and what is not held is collected
		time.Sleep(2 * modelRetention)
		_, err := collector.Collect(ctx)
		fixture.Must(t, err)
	}
	if got, _ := until(t, ctx, client(), cfg, last); shown(got) != "r003.c=v r003.c=w" {
		t.Errorf("%s", shown(got))
	}
	holds, err := admin.New(env.Client).Holds(ctx)
	if err != nil || len(holds) != 1 || holds[0].Reason != "percolator watch n" || holds[0].Timestamp > last {
		t.Errorf("%+v, %v", holds, err)
	}

	// The position was handed out and not dealt with. Who is asked for more has done so.
	second, stop := context.WithCancel(ctx)
	f = follow(t, second, client(), cfg)
	f.reaches(t, last, "r003.c=v r003.c=w")
	time.Sleep(time.Minute)

	// The one that begins last has the name.
	third := follow(t, ctx, client(), cfg)
	<-f.done
	fixture.WantErr(t, f.err, watch.ErrTakenOver)
	stop()
	time.Sleep(time.Minute)
	third.cancel()
	<-third.done
	if got, _, err := third.seen(); got != "" || err != nil {
		t.Errorf("%s was told again, %v", got, err)
	}

	// A watcher whose hold has expired, and one without, are refused once the safepoint has passed.
	time.Sleep(2 * time.Hour)
	_, err = collector.Collect(ctx)
	fixture.Must(t, err)
	fixture.WantErr(t, failure(t, ctx, client(), cfg), percolator.ErrSnapshotTooOld)
	old := config(0)
	old.From = unnamed
	fixture.WantErr(t, failure(t, ctx, client(), old), percolator.ErrSnapshotTooOld)

	// Both begin anew when they are told to.
	bad := cfg
	bad.From = watch.At(now(t, ctx, env.Oracle))
	fixture.WantErr(t, failure(t, ctx, client(), bad), percolator.ErrInvalidArgument)
	bad.Restart = true
	last = fixture.Put(t, ctx, env.Client, key(4), "c", "v")
	if got, _ := until(t, ctx, client(), bad, last); shown(got) != "r004.c=v" {
		t.Errorf("%s", shown(got))
	}
}

// A watcher that could not learn whether its position was stored is not taken over by itself.
func TestPositionThatWasStoredAfterAll(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx := fixture.Context(t)
		env := fixture.NewEnv(t)
		c := env.NewClient()
		cfg := config(now(t, ctx, env.Oracle))
		cfg.Name, cfg.Interval = "w", 20*time.Millisecond
		f := follow(t, ctx, c, cfg)
		first := fixture.Put(t, ctx, env.Client, "a", "c", "1")
		f.reaches(t, first, "a.c=1")
		var saves atomic.Int64
		env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Row != "watch:w" || r.Method != "CheckAndMutateRow" {
				return percolatortest.Pass
			}
			switch n := saves.Add(1); {
			case n == 1:
				return percolatortest.LoseAnswer
			case n <= retry.TransientFailures:
				return percolatortest.LoseRequest
			}
			return percolatortest.Pass
		})
		changes := "a.c=1"
		for i := 0; saves.Load() <= retry.TransientFailures; i++ {
			time.Sleep(2 * time.Second)
			last := fixture.Put(t, ctx, env.Client, "b", "c", fmt.Sprint(i))
			changes += fmt.Sprintf(" b.c=%d", i)
			f.reaches(t, last, changes)
		}
	})
}
