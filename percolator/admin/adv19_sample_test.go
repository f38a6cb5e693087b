package admin_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A sample looks at values that expire some day, as long as they are there.
func TestSampleOfValuesThatExpire(t *testing.T) {
	t.Parallel()
	s := fixture.Schema()
	s.Tables[0].TTL = time.Hour
	env := percolatortest.New(t, s)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "r", "count", "100")
	fixture.Must(t, env.Client.Flush(ctx))
	got := sampled(t, env, percolator.ColumnSchema{Name: "count", Type: percolator.TypeInt64})
	if len(got) != 1 || got[0].Values != 1 || len(got[0].Findings) != 1 {
		t.Errorf("of a value that is no int64 a sample says %+v", got)
	}
}
