package watch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
)

// A watcher whose table is dropped says so: its consumer would keep for good what is gone.
func TestWatcherOfATableThatIsDropped(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}, {Name: "gone"}}})
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		put := func(table, value string) {
			fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
				return tx.Set(percolator.Cell{Table: table, Row: "r", Column: "c"}, []byte(value))
			}))
		}
		from := now(t, ctx, env.Oracle)
		put("gone", "1")
		put("t", "1")
		dropped := make(chan bool)
		other := env.NewClient()
		go func() {
			time.Sleep(10 * time.Second)
			_, err := admin.New(other).DropFromSchema(ctx, &percolator.Schema{Timing: other.Schema().Timing, Tables: []percolator.Table{{Name: "t"}}}, admin.DropOptions{ClientOptions: env.Options()})
			fixture.Must(t, err)
			t.Logf("dropped")
			put("t", "2")
			close(dropped)
		}()
		cfg := config(from, watch.Column{Table: "t"}, watch.Column{Table: "gone"})
		cfg.Interval = time.Second
		var seen []watch.Change
		watching, stop := context.WithTimeout(ctx, 20*time.Minute)
		defer stop()
		for b, err := range watch.Changes(watching, env.Client, cfg) {
			if err != nil {
				t.Logf("after %s: %v", shown(seen), err)
				if !errors.Is(err, percolator.ErrSchemaMismatch) && !errors.Is(err, percolator.ErrSnapshotTooOld) {
					t.Errorf("the error is not one that is documented")
				}
				return
			}
			seen = append(seen, b.Changes...)
		}
		<-dropped
		t.Errorf("the watcher goes on as if the table were there: %s", shown(seen))
	})
}
