package watch_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
)

// The instance below a watcher is made anew, as by an emulator that is started again, and has no
// schema yet: the watcher ends. One that misses the schema in one look only, as in a moment of a
// restore, looks again.
func TestWatcherOfAnInstanceWithoutItsSchema(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewEnv(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		meta := env.Store().Open(model.MetaTable)
		row, err := meta.ReadRow(ctx, "meta")
		fixture.Must(t, err)
		gone, back := bigtable.NewMutation(), bigtable.NewMutation()
		gone.DeleteRow()
		for family, items := range row {
			for _, item := range items {
				back.Set(family, strings.TrimPrefix(item.Column, family+":"), item.Timestamp, item.Value)
			}
		}

		cfg := config(now(t, ctx, env.Oracle))
		cfg.Interval = time.Second
		failed, batches := make(chan error, 1), new(atomic.Int64)
		go func() {
			for _, err := range watch.Changes(ctx, env.Client, cfg) {
				if err != nil {
					failed <- err
					return
				}
				batches.Add(1)
			}
		}()
		time.Sleep(10500 * time.Millisecond) // between two looks
		looks := new(atomic.Int64)
		env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Table == model.MetaTable && r.Row == "meta" {
				looks.Add(1)
			}
			return percolatortest.Pass
		})
		fixture.Must(t, meta.Apply(ctx, "meta", gone))
		for looks.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Millisecond) // the client has its answer
		fixture.Must(t, meta.Apply(ctx, "meta", back))
		before := batches.Load()
		time.Sleep(5 * time.Minute)
		select {
		case err := <-failed:
			t.Fatalf("the watcher ended after one look: %v", err)
		default:
		}
		if batches.Load() == before {
			t.Error("the watcher has stopped")
		}

		fixture.Must(t, meta.Apply(ctx, "meta", gone))
		fixture.WantErr(t, <-failed, percolator.ErrSchemaMismatch)
	})
}
