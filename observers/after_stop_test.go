package observers_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// A cell that waits for another observer when its worker stops is not lost: the next worker, of
// which that observer has nothing to do, runs for it, once.
func TestAHeldCellOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	e := newEnv(t, percolator.Table{Name: "t", Observed: []string{"up", "down"}})
	began, ran := make(chan struct{}, 1), make(chan struct{}, 9)
	registry := func(hangs bool) *observers.Registry {
		r := observers.NewRegistry()
		r.Observe("up", "t", "up", func(ctx context.Context, _ *percolator.Txn, _ observers.Change) error {
			if began <- struct{}{}; hangs {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		r.Observe("down", "t", "down", func(context.Context, *percolator.Txn, observers.Change) error {
			ran <- struct{}{}
			return nil
		}, observers.After(time.Hour, "up"))
		return r
	}
	w, stop := e.start(e.client, registry(true), observers.Config{DrainTimeout: time.Millisecond})
	e.set(e.client, "r", "up", "1")
	<-began
	e.set(e.client, "r", "down", "1")
	e.until("the cell is held", func() bool { return w.Stats().Queued == 1 })
	stop()
	if len(ran) != 0 {
		t.Fatal("it did not wait")
	}
	next, _ := e.start(e.NewClient(), registry(false), observers.Config{})
	if err := next.WaitIdle(e.ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(ran); n != 1 {
		t.Errorf("%d runs", n)
	}
}
