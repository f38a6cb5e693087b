package observers_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestALateHintCostsOneRoundOfAttempts: hints wait with the oracle while workers are busy, or for
// as long as one may return to ask. A hint reaches a worker after another worker has found the
// notification by its scan and parked the cell. The worker has not read the row yet, so it tries
// once more, parks the cell again, and leaves it alone from then on.
func TestALateHintCostsOneRoundOfAttempts(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testALateHintCostsOneRoundOfAttempts)
}

func testALateHintCostsOneRoundOfAttempts(t *testing.T) {
	const column = "in"
	e := newParkEnv(t, byScans)
	listener := e.NewClient(e.direct())
	e.client = e.NewClient(e.direct())
	asked, cancel := context.WithTimeout(e.ctx, 100*time.Millisecond) // a worker has asked for hints, so they are kept for a while
	_, _ = listener.Engine().Dispatch.AwaitNotifications(asked, model.Question{
		Columns: []percolator.Cell{cell("", column)}, Most: 1, Wait: 20 * time.Second,
	})
	cancel()
	e.change(column, "1")
	if err := e.client.Flush(e.ctx); err != nil {
		t.Fatal(err)
	}
	cfg := parkSoon
	cfg.DisableDispatch = true
	w, stop := e.start(e.NewClient(), e.registry, cfg)
	e.until("the cell is parked", func() bool { return len(e.parked()) == 1 })
	e.idle(w)
	stop()
	e.calls(1, 3)

	c, search := e.NewClient(e.direct()), percolatortest.NewHold()
	first := true
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if first && r.Method == percolatortest.ReadRows && r.Table == "t" && r.Rows == 0 { // its search is slower than the hint
			first = false
			return search
		}
		return percolatortest.Pass
	})
	w, _ = e.start(c, e.registry, observers.Config{MaxAttempts: 3, Scanners: 1, DisableCollection: true})
	search.Wait(t, 1)
	e.until("the hint arrives and is handled", func() bool {
		s := w.Stats()
		return s.Hinted > 0 && s.Queued+s.Running == 0
	})
	search.Release()
	e.idle(w)
	e.searched(w, 4)
	if bad := e.bad.Load(); bad > 6 || len(e.parked()) != 1 {
		t.Fatalf("%d attempts, parked %+v", bad, e.parked())
	}
}
