package observers_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A chain that another worker moves between two tables: at every instant one cell is dirty.
// WaitIdle must not return.
func TestWaitIdleSeesWorkThatMoves(t *testing.T) {
	t.Parallel()
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "a", Observed: []string{"n"}}, {Name: "b", Observed: []string{"n"}}}}
	env := percolatortest.New(t, schema)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	a, b := percolator.Int64("a", "n"), percolator.Int64("b", "n")
	gate := make(chan struct{})
	hop := func(to percolator.Column[int64]) func(ctx context.Context, tx *percolator.Txn, ch observers.Change, v int64) error {
		return func(ctx context.Context, tx *percolator.Txn, ch observers.Change, v int64) error {
			select {
			case <-gate:
			case <-ctx.Done():
				return ctx.Err()
			}
			return to.Set(tx, "row", v-1)
		}
	}
	newWorker := func(c *percolator.Client) *observers.Worker {
		r := observers.NewRegistry()
		observers.Observe(r, "ab", a, hop(b))
		observers.Observe(r, "ba", b, hop(a))
		w, err := observers.NewWorker(c, r, observers.Config{Concurrency: 2})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := newWorker(env.Client)
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	if _, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error { return a.Set(tx, "row", 1000) }); err != nil {
		t.Fatal(err)
	}
	where := "a"
	move := func() { // the dirty cell moves to the other table
		gate <- struct{}{}
		other := map[string]string{"a": "b", "b": "a"}[where]
		for dirty := true; dirty; {
			dirty = false
			for p, err := range env.Client.Engine().Reads.ScanPending(ctx, where, percolator.All()) {
				if err != nil {
					t.Fatal(err)
				}
				dirty = dirty || len(p.Notified)+len(p.Locks) > 0
			}
		}
		if err := env.Client.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		where = other
	}

	client := env.NewClient()
	arrived := make(chan string)
	held := make(chan *percolatortest.Hold, 100)
	env.FaultsOf(client).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && (r.Table == "a" || r.Table == "b") {
			h := percolatortest.NewHold()
			go func() { arrived <- r.Table; held <- h }()
			return h
		}
		return percolatortest.Pass
	})
	idle := make(chan error, 1)
	go func() { idle <- newWorker(client).WaitIdle(ctx) }()
	for range 20 {
		select {
		case table := <-arrived:
			h := <-held
			h.Wait(t, 1)
			if where == table {
				move()
			}
			h.Release()
			continue
		case err := <-idle:
			if err != nil {
				t.Fatal(err)
			}
			t.Errorf("WaitIdle returned while the cell in table %q is dirty", where)
		}
		break
	}
	close(gate)
	cancel()
	stop()
	<-done
}
