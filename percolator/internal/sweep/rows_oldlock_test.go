package sweep_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A sweep that builds the journal cannot resolve a lock in time whose transaction has no entry. The
// entry that the sweep has written for the row is not settled before the lock is gone: no watermark
// is published beside it, and the record on its primary stays till then (J12).
func TestOldLockIsGoneBeforeTheWatermark(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testOldLockIsGoneBeforeTheWatermark)
}

func testOldLockIsGoneBeforeTheWatermark(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(true), fixture.ShortRetention)
	ctx, c := fixture.Context(t), env.NewClient(fixture.ShortRetention)
	fixture.CrashAfter(t, env, fixture.IsCommit, "p", "s")
	var swept atomic.Bool
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Row == "s" && r.Method == percolatortest.CheckAndMutateRow && !swept.Load() {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	fixture.Apply(t, ctx, env, fixture.JournalSchema(false))
	w, err := admin.New(c).NewSweeper(model.SweepConfig{Lease: 20 * time.Second})
	fixture.Must(t, err)
	for {
		done, err := w.Sweep(ctx)
		if fixture.Must(t, ctx.Err()); err == nil && done.Locks == 0 {
			break
		}
	}
	swept.Store(true)
	fixture.Put(t, ctx, env.Client, "p", "c", "later")
	time.Sleep(5 * time.Minute) // looks at the entries, and moves low
	ctx = fixture.Context(t)
	env.Clock.Advance(fixture.PastRetention)
	var once sync.Once
	_, err = fixture.NewCollector(t, env.NewClient(fixture.ShortRetention), model.CollectorConfig{Progress: func(col model.Collection) {
		if col.Phase == model.CollectionErase {
			once.Do(func() {
				if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
					t.Errorf("%d locks were left when the watermark was published", n)
				}
			})
		}
	}}).Collect(ctx)
	fixture.Must(t, err)
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("s", "c"), "crashed")
}
