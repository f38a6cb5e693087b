package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// An import begins into a table while the drop of it waits until no client reads an index: the drop
// is refused, as it is when the import comes first. The fence would outlive its table.
func TestImportThatBeginsWhileItsTableIsBeingDropped(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, peopleSchema(percolator.Timing{}, "city"))
		ctx, a := context.Background(), admin.New(env.Client)
		waits := 0
		opts := noWait(env)
		opts.Wait = func(context.Context, time.Duration) error {
			if waits++; waits == 1 {
				_, err := transfer.BeginImport(ctx, env.NewClient().Engine(), "t", "a source", true, nil, nil)
				fixture.Must(t, err)
			}
			return nil
		}
		next := peopleSchema(env.Client.Schema().Timing)
		next.Tables = next.Tables[:1] // without the index city, and without table t
		fixture.WantErr(t, fixture.ErrOf(a.DropFromSchema(ctx, next, opts)), admin.ErrImporting)
		aborted, err := transfer.AbortImport(ctx, env.Client.Engine(), "t", nil, nil)
		if fixture.Must(t, err); !aborted {
			t.Error("there was no import")
		}
		fixture.Must(t, fixture.ErrOf(a.DropFromSchema(ctx, next, opts)))
	})
}
