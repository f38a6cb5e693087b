package watch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
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
