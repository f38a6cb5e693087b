package gc_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The session of a client that lives has ended, which it does not know yet. While the collector
// deletes the header of its stream, which has no rows, the client appends to it, commits, and dies.
// The next cycle has the stream adopted, although its safepoint is below the commit.
func TestARowThatComesWhileItsHeaderGoesIsAdopted(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testARowThatComesWhileItsHeaderGoesIsAdopted)
}

func testARowThatComesWhileItsHeaderGoesIsAdopted(t *testing.T) {
	env := fixture.NewCollectorEnv(t)
	ctx := fixture.Context(t)
	var sessions fixture.Registrar
	writer := sessions.Client(env)
	fixture.Put(t, ctx, writer, "r", "c", "1")
	fixture.Must(t, writer.Flush(ctx))
	env.Clock.Advance(fixture.PastRetention)
	sessions.End(writer.Engine().Locks.Sessions.Own())
	by, other := sessions.Client(env, fixture.ShortRetention), sessions.Client(env, fixture.ShortRetention)
	hold := percolatortest.NewHold()
	env.FaultsOf(by).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if strings.HasPrefix(r.Row, "\x41") && strings.HasPrefix(r.Method, "Mutate") {
			return hold
		}
		return percolatortest.Pass
	})
	collected := make(chan error, 1)
	go func() {
		_, err := fixture.NewCollector(t, by, model.CollectorConfig{}).Collect(ctx)
		collected <- err
	}()
	hold.Wait(t, 1)
	fixture.Put(t, ctx, writer, "r2", "seen", "v")
	env.FaultsOf(writer).Crash()
	hold.Release()
	fixture.Must(t, <-collected)
	env.Clock.Advance(5 * time.Second)
	fixture.Collect(t, ctx, by)
	var found atomic.Bool
	t.Cleanup(other.Engine().Looker.HandleFound(func() settle.Found {
		return func(_ context.Context, _ model.Pending, n model.Notification, _ settle.Sight) bool {
			if n.Cell.Row == "r2" {
				found.Store(true)
			}
			return true
		}
	}, func(model.Cell) bool { return true }))
	a := settle.NewAdopter(other.Engine().Looker, other.Engine().Journal, nil)
	fixture.Eventually(t, "the row is adopted", func() bool {
		fixture.Must(t, a.RunOnce(ctx))
		return found.Load()
	})
}
