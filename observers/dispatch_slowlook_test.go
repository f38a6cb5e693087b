package observers_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestHintsPassASlowLook: the row of a retried cell does not answer. Hints at other cells are taken
// all the same.
func TestHintsPassASlowLook(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e := newParkEnv(t, byJournal)
		cfg := parkSoon
		cfg.ScanInterval, cfg.Grace = 0, 5*time.Second
		working, operator := e.NewClient(e.direct()), e.NewClient(e.direct())
		e.start(working, e.registry, cfg)
		e.change("in", "1")
		e.until("the cell is parked", func() bool { return len(e.parked()) == 1 })
		time.Sleep(time.Second)
		e.broken.Store(false)
		hold := percolatortest.NewHold()
		defer hold.Release()
		looked := make(chan struct{}, 100)
		e.FaultsOf(working).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.ReadRows && r.Table == "t" && r.Row == "r" {
				looked <- struct{}{}
				return hold
			}
			return percolatortest.Pass
		})
		fixture.Must(t, observers.Retry(e.ctx, operator, e.parked()[0]))
		<-looked
		changed, ran := time.Now(), e.good.Load()
		_, err := operator.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(cell("s", "in"), nil) })
		fixture.Must(t, err)
		e.until("the observer runs", func() bool { return e.good.Load() > ran })
		if took := time.Since(changed); took > 50*time.Millisecond {
			t.Errorf("the observer of another cell ran after %v", took)
		}
	})
}
