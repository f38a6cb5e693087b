package gc_test

import (
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The instance below a client is made anew, as by an emulator that is started again, and has no
// schema yet.
func TestCollectorOfAnInstanceWithoutItsSchema(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env, ctx := fixture.NewCollectorEnv(t), fixture.Context(t)
		fixture.Put(t, ctx, env.Client, "r", "c", "v")
		env.Clock.Advance(fixture.PastRetention)
		gone := bigtable.NewMutation()
		gone.DeleteRow()
		fixture.Must(t, env.Store().Open(model.MetaTable).Apply(ctx, "meta", gone))
		_, err := fixture.NewCollector(t, env.Client, model.CollectorConfig{}).Collect(ctx)
		fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	})
}
