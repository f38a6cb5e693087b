package observers_test

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestRetryRunsAtOnce: the worker remembers the cell as parked, and a hint says otherwise, of an
// operator's client, which closes after the retry, or of the worker's own.
func TestRetryRunsAtOnce(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"in", "w"} {
		for _, parkedFor := range []time.Duration{time.Second, time.Minute} {
			t.Run(column+" after "+parkedFor.String(), func(t *testing.T) {
				t.Parallel()
				percolatortest.Bubble(t, func(t *testing.T) { testRetryRunsAtOnce(t, column, parkedFor, false) })
				percolatortest.Bubble(t, func(t *testing.T) { testRetryRunsAtOnce(t, column, parkedFor, true) })
			})
		}
	}
}

func testRetryRunsAtOnce(t *testing.T, column string, parkedFor time.Duration, sameProcess bool) {
	e := newParkEnv(t, byJournal)
	cfg := parkSoon
	cfg.ScanInterval, cfg.Grace = 0, 5*time.Second
	working, operator := e.NewClient(e.direct()), e.NewClient(e.direct())
	if sameProcess {
		operator = working
	}
	e.start(working, e.registry, cfg)
	e.change(column, "1")
	e.until("the cell is parked", func() bool { return len(e.parked()) == 1 })
	time.Sleep(parkedFor)
	e.broken.Store(false)
	retried := time.Now()
	fixture.Must(t, observers.Retry(e.ctx, operator, e.parked()[0]))
	if !sameProcess {
		fixture.Must(t, operator.Close())
	}
	e.until("the observer runs", func() bool { return e.bad.Load() == 4 })
	if took := time.Since(retried); took > 50*time.Millisecond {
		t.Errorf("the observer ran %v after the retry", took)
	}
}
