package watch_test

import (
	"context"
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
// schema yet.
func TestWatcherOfAnInstanceWithoutItsSchema(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := fixture.NewEnv(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		cfg := config(now(t, ctx, env.Oracle))
		cfg.Interval = time.Second
		go func() {
			time.Sleep(10 * time.Second)
			gone := bigtable.NewMutation()
			gone.DeleteRow()
			fixture.Must(t, env.Store().Open(model.MetaTable).Apply(ctx, "meta", gone))
		}()
		var failed error
		for _, err := range watch.Changes(ctx, env.Client, cfg) {
			if failed = err; err != nil {
				break
			}
		}
		fixture.WantErr(t, failed, percolator.ErrSchemaMismatch)
	})
}
