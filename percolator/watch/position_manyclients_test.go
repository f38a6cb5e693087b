package watch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
)

// storedRecord is the cell with the position of the watcher w.
func storedRecord(t testing.TB, ctx context.Context, env *percolatortest.Env) []byte {
	t.Helper()
	r, err := env.Store().Open("percolator_meta").ReadRow(ctx, "watch:w")
	fixture.Must(t, err)
	if len(r["meta"]) != 1 {
		t.Fatalf("%d cells in the row of the watcher", len(r["meta"]))
	}
	return r["meta"][0].Value
}

// streamsOf counts the streams that a stored position knows of.
func streamsOf(t testing.TB, record []byte) int {
	t.Helper()
	var r struct{ Position watch.Position }
	fixture.Must(t, json.Unmarshal(record, &r))
	return watch.Streams(r.Position)
}

// saved has a watcher hand out the one change that is new, and store its position twice.
func saved(t testing.TB, ctx context.Context, env *percolatortest.Env, value string, cfg watch.Config) {
	t.Helper()
	f := follow(t, ctx, env.NewClient(), cfg)
	time.Sleep(3 * time.Second) // it has started
	want := ""
	for i := range 2 {
		row := fmt.Sprint(value, i)
		ts := fixture.Put(t, ctx, env.Client, row, "c", "v")
		if want += row + ".c=v"; i == 0 {
			want += " "
		}
		fixture.Eventually(t, "a change", func() bool { _, at, err := f.seen(); return at >= ts || err != nil })
		time.Sleep(3 * time.Second)
	}
	f.cancel()
	<-f.done
	if got, _, err := f.seen(); got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// A watcher with a name among hundreds of clients that committed once each: its position is longer
// than what a filter can hold twice. It is stored again and again, and another watcher takes it
// over (J10). Beyond the limit the position knows of as many streams as it may.
func TestPositionAmongManyClients(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{430, 995, 1100} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				env := fixture.NewEnv(t)
				ctx := fixture.Context(t)
				fixture.Put(t, ctx, env.Client, "r", "c", "old")
				fixture.CopyStreams(t, ctx, env, clients)
				cfg := config(0)
				cfg.Name, cfg.Interval = "w", time.Second
				saved(t, ctx, env, "a", cfg)
				record := storedRecord(t, ctx, env)
				if n := streamsOf(t, record); n < min(clients, 1000) || n > 1000 || len(record) < 10_300 || len(record) > 40_000 {
					t.Errorf("%d streams in %d bytes", n, len(record))
				}
				saved(t, ctx, env, "b", cfg)
			})
		})
	}
}

// A position that a watcher of an earlier version has stored, and could not replace, is taken over,
// and started anew (J10).
func TestPositionThatAnEarlierVersionHasStuck(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				env := fixture.NewEnv(t)
				ctx := fixture.Context(t)
				fixture.Put(t, ctx, env.Client, "r", "c", "old")
				fixture.CopyStreams(t, ctx, env, 430)
				cfg := config(0)
				cfg.Name, cfg.Interval = "w", time.Second
				saved(t, ctx, env, "a", cfg)

				var object map[string]json.RawMessage
				fixture.Must(t, json.Unmarshal(storedRecord(t, ctx, env), &object))
				delete(object, "Nonce")
				stuck, err := json.Marshal(object)
				fixture.Must(t, err)
				if len(stuck) < 10_300 {
					t.Fatalf("%d bytes are not too long", len(stuck))
				}
				mut := bigtable.NewMutation()
				mut.Set("meta", "state", 1000, stuck)
				fixture.Must(t, env.Store().Open("percolator_meta").Apply(ctx, "watch:w", mut))
				cfg.Restart = restart
				saved(t, ctx, env, "b", cfg)
			})
		})
	}
}
