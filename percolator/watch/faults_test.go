package watch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

// Whatever happens to any one request of a watcher, it tells the same; one that dies begins again
// at its position.
func TestFaultsChangeNothingThatIsTold(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	from := now(t, ctx, env.Oracle)
	fixture.Put(t, ctx, env.Client, "p", "c", "1", "q", "c", "2")
	fixture.CrashAfter(t, env, fixture.IsCommit, "a1", "a2") // phase two is left to others
	fixture.CrashAfter(t, env, nil, "b1", "b2")              // and so is a roll back
	env.Clock.Advance(fixture.LockTTL)
	last := fixture.Put(t, ctx, env.Client, "p", "c", "3")
	const want = "p.c=1 q.c=2 a1.c=crashed a2.c=crashed p.c=3"

	run := func(name string, do func(n int, r percolatortest.Request) percolatortest.Action) (requests int) {
		client := env.NewClient()
		faults := func(r percolatortest.Request) percolatortest.Action {
			requests++
			return do(requests, r)
		}
		env.FaultsOf(client).Handle(faults)
		env.FaultsOf(client).HandleJournal(faults)
		var got []watch.Change
		cfg := config(from)
		cfg.Name = "faults " + name
		for b, err := range watch.Changes(ctx, client, cfg) {
			if err != nil && env.FaultsOf(client).Crashed() {
				break
			}
			fixture.Must(t, err)
			if got = append(got, b.Changes...); b.Position.Timestamp() >= last {
				break
			}
		}
		if env.FaultsOf(client).Crashed() { // what was handed out last may come again
			cfg.From = watch.Position{}
			if len(got) == 0 {
				cfg.From, cfg.Restart = watch.At(from), true
			}
			again, _ := until(t, ctx, env.NewClient(), cfg, last)
			if a, b := shown(got), shown(again); !strings.HasPrefix(want, a) || !strings.HasSuffix(want, b) || len(got)+len(again) < 5 {
				t.Errorf("%s: %s, and again %s", name, a, b)
			}
		} else if shown(got) != want {
			t.Errorf("%s: %s, want %s", name, shown(got), want)
		}
		return requests
	}
	n := run("none", func(int, percolatortest.Request) percolatortest.Action { return percolatortest.Pass })
	for _, effect := range []percolatortest.Effect{percolatortest.LoseRequest, percolatortest.LoseAnswer, percolatortest.Duplicate, percolatortest.Crash} {
		for i := 1; i <= n; i++ {
			run(fmt.Sprintf("%v %d", effect, i), func(n int, _ percolatortest.Request) percolatortest.Action {
				if n == i {
					return effect
				}
				return percolatortest.Pass
			})
		}
	}
	t.Logf("%d requests", n)
}

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
