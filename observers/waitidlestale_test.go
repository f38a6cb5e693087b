package observers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A process that has not heard yet that the journal was turned off does not believe that nothing is
// left because no entry says so.
func TestWaitIdleWithAFormerJournal(t *testing.T) {
	t.Parallel()
	schema := func(without bool) *percolator.Schema {
		return &percolator.Schema{
			Tables:         []percolator.Table{{Name: "t", Observed: []string{"seen"}}},
			Timing:         percolator.Timing{MetaMaxAge: time.Minute},
			DisableJournal: without,
		}
	}
	env := percolatortest.New(t, schema(false))
	ctx := fixture.Context(t)
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, schema(true), env.Options()...))
	knows := env.NewClient()
	fixture.Put(t, ctx, knows, "r", "seen", "v")
	fixture.Must(t, knows.Flush(ctx))
	if !env.Client.Engine().Meta.ByJournal() {
		t.Fatal("the client has heard that there is no journal")
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var left *observers.NotIdleError
	if err := observers.WaitIdle(limited, env.Client, nil); !errors.As(err, &left) || left.Left.Notifications != 1 {
		t.Errorf("%v", err)
	}
}
