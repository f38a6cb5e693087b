package capacity_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gopercolator/percolator/cmd/percolator/internal/capacity"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A transaction waits for as many requests in sequence as the model says: all that it has under way
// are answered at once, round by round.
func TestRequestsInSequence(t *testing.T) {
	for _, c := range []struct {
		name     string
		workload func(w *capacity.Workload)
		written  int
		read     int
		opts     []percolator.TxnOption
		want     float64
	}{
		{"writes a row", func(w *capacity.Workload) { w.ReadsPerChange = 0 }, 1, 0, nil, 4},
		{"writes ten rows", func(w *capacity.Workload) { w.ReadsPerChange, w.RowsPerTransaction = 0, 10 }, 10, 0, nil, 4},
		{"reads and writes ten rows", func(w *capacity.Workload) { w.RowsPerTransaction = 10 }, 10, 10, nil, 5},
		{"blind", func(w *capacity.Workload) { w.ReadsPerChange, w.Blind = 0, true }, 1, 0, []percolator.TxnOption{percolator.Blind()}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			percolatortest.Bubble(t, func(t *testing.T) {
				side := compared(t, inputs(t), func(w *capacity.Workload) { w.Rows, w.Changes = 1e6, 100; c.workload(w) })["ours"]
				got := rounds(t, c.written, c.read, c.opts)
				if got != c.want || side.Sequence.Requests != c.want || side.Sequence.Takes[2].All != 5*c.want {
					t.Errorf("%v in sequence, the model has %+v, want %v", got, side.Sequence, c.want)
				}
			})
		})
	}
}

// rounds commits a transaction and counts how often it waits for answers.
func rounds(t *testing.T, written, read int, opts []percolator.TxnOption) (n float64) {
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	for range 2 { // opens a stream of the journal, and has a timestamp at hand
		_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return set(tx, "c", []string{"first"}) }, opts...)
		fixture.Must(t, err)
	}
	fixture.Must(t, env.Client.Flush(ctx))

	var round atomic.Pointer[percolatortest.Hold]
	round.Store(percolatortest.NewHold())
	hold := func(percolatortest.Request) percolatortest.Action { return round.Load() }
	env.FaultsOf(env.Client).Handle(hold)
	env.FaultsOf(env.Client).HandleJournal(hold)
	ended := make(chan error, 1)
	go func() {
		rows := names("row", max(written, read))
		_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
			if err := get(ctx, tx, rows[:read]); err != nil {
				return err
			}
			return set(tx, "c", rows[:written])
		}, opts...)
		ended <- err
	}()
	for {
		synctest.Wait()
		select {
		case err := <-ended:
			fixture.Must(t, err)
			round.Load().Release()
			env.FaultsOf(env.Client).Handle(nil)
			env.FaultsOf(env.Client).HandleJournal(nil)
			return n
		default:
			n++
			round.Swap(percolatortest.NewHold()).Release()
		}
	}
}
