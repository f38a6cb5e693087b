package combinequeue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// testTimeout bounds what a test waits for; nothing waits for it to pass.
const testTimeout = 2 * time.Minute

// env is a store with a queue of integers, the totals that they are folded into, and an oracle
// whose time only the test moves.
type env struct {
	testing.TB
	*percolatortest.Env
	ctx    context.Context
	client *percolator.Client
	queue  *combinequeue.Queue[int64]
	total  percolator.Column[int64]
}

func config() combinequeue.Config[int64] {
	return combinequeue.Config[int64]{
		Values:  percolator.Int64("queue", "sum"),
		Combine: func(a, b int64) int64 { return a + b },
	}
}

func newEnv(t testing.TB, cfg combinequeue.Config[int64]) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	q, err := combinequeue.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{q.Table(), {Name: "totals"}}})
	e.Clock.Stop()
	return &env{t, e, ctx, e.Client, q, percolator.Int64("totals", "total")}
}

// fold runs a worker that folds into the totals until the test ends.
func (e *env) fold(c *percolator.Client, opts ...observers.Option) (w *observers.Worker, stop func()) {
	e.Helper()
	r := observers.NewRegistry()
	e.queue.ObserveBatch(r, e.queue.Into(e.total), opts...)
	return e.start(c, r)
}

func (e *env) start(c *percolator.Client, r *observers.Registry) (w *observers.Worker, stop func()) {
	e.Helper()
	return e.startWith(c, r, observers.Config{
		MinBackoff: time.Millisecond, Scanners: 1, ScanInterval: 10 * time.Millisecond, Grace: time.Nanosecond, DisableCollection: true,
	})
}

func (e *env) startWith(c *percolator.Client, r *observers.Registry, cfg observers.Config) (w *observers.Worker, stop func()) {
	e.Helper()
	w, err := observers.NewWorker(c, r, cfg)
	if err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			e.Errorf("Run: %v", err)
		}
	})
	e.Cleanup(stop)
	return w, stop
}

func (e *env) idle(w *observers.Worker) {
	e.Helper()
	if err := w.WaitIdle(e.ctx); err != nil {
		e.Fatal(err)
	}
}

// add commits one transaction that adds 1 to each key.
func (e *env) add(c *percolator.Client, keys ...string) {
	e.Helper()
	if err := e.tryAdd(c, keys...); err != nil {
		e.Fatal(err)
	}
}

func (e *env) tryAdd(c *percolator.Client, keys ...string) error {
	tx, err := c.Begin(e.ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := e.queue.Add(tx, k, 1); err != nil {
			return err
		}
	}
	_, err = tx.Commit(e.ctx)
	return err
}

// read returns the folded total of a key and what is pending, in one snapshot.
func (e *env) read(key string) (total, pending int64) {
	e.Helper()
	err := e.client.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) (err error) {
		if total, err = e.total.GetOr(ctx, s, key, 0); err != nil {
			return err
		}
		sum, err := e.queue.Pending(ctx, s, key)
		pending = sum.Value
		return err
	})
	if err != nil {
		e.Fatal(err)
	}
	return total, pending
}

// until waits until cond holds.
func (e *env) until(what string, cond func() bool) {
	e.Helper()
	if !fixture.Until(e.ctx, cond) {
		e.Fatalf("never happened: %s", what)
	}
}

// failing runs a worker whose folds fail, and are parked after two attempts.
func (e *env) failing(err error) *observers.Worker {
	e.Helper()
	r := observers.NewRegistry()
	e.queue.Observe(r, func(ctx context.Context, tx *percolator.Txn, key string, v int64) error {
		if serr := e.total.Set(tx, key, v); serr != nil {
			return serr
		}
		return err
	})
	w, werr := observers.NewWorker(e.client, r, observers.Config{MaxAttempts: 2, MinBackoff: time.Millisecond, DisableCollection: true})
	if werr != nil {
		e.Fatal(werr)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	e.Cleanup(func() { cancel(); <-done })
	return w
}
