package exportqueue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// testTimeout bounds what a test waits for; nothing waits for it to pass.
const testTimeout = 2 * time.Minute

// env is a store with an export queue and an oracle whose time only the test moves.
type env struct {
	testing.TB
	*percolatortest.Env
	ctx    context.Context
	client *percolator.Client
	queue  *exportqueue.Queue
}

func newEnv(t testing.TB, change func(*exportqueue.Config)) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	cfg := exportqueue.Config{Table: "exports", Name: "export"}
	if change != nil {
		change(&cfg)
	}
	q, err := exportqueue.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	tables := []percolator.Table{q.Table(), {Name: "t"}}
	if letters, ok := q.DeadLetterTable(); ok {
		tables = append(tables, letters)
	}
	e := percolatortest.New(t, &percolator.Schema{Tables: tables})
	e.Clock.Stop()
	return &env{t, e, ctx, e.Client, q}
}

// receiver is an outside system. It records what it is sent, call by call.
type receiver struct {
	mu    sync.Mutex
	calls [][]exportqueue.Entry
	fail  func(call int) error // nil: never
}

func (r *receiver) deliver(_ context.Context, batch []exportqueue.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, batch)
	if r.fail != nil {
		return r.fail(len(r.calls))
	}
	return nil
}

// entries returns what was sent so far, in order.
func (r *receiver) entries() (all []exportqueue.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		all = append(all, c...)
	}
	return all
}

func values(entries []exportqueue.Entry) (list []string) {
	for _, e := range entries {
		list = append(list, e.Key+"="+string(e.Value))
	}
	return list
}

// export runs a worker until the test ends.
func (e *env) export(c *percolator.Client, to *receiver, cfg observers.Config) (w *observers.Worker, stop func()) {
	e.Helper()
	return e.exportSearching(c, c, to, cfg)
}

// exportSearching is export with another client that searches for entries.
func (e *env) exportSearching(c, searcher *percolator.Client, to *receiver, cfg observers.Config) (w *observers.Worker, stop func()) {
	e.Helper()
	return e.exportTo(c, searcher, to.deliver, cfg)
}

// exportTo is export with any delivery function.
func (e *env) exportTo(c, searcher *percolator.Client, deliver func(context.Context, []exportqueue.Entry) error, cfg observers.Config) (w *observers.Worker, stop func()) {
	e.Helper()
	r := observers.NewRegistry()
	e.queue.Observe(r, searcher, deliver)
	cfg.MinBackoff, cfg.Scanners, cfg.ScanInterval, cfg.DisableCollection = time.Millisecond, 1, 10*time.Millisecond, true
	cfg.Grace = time.Nanosecond // no other worker has what it finds
	cfg.SweepInterval = -1      // a sweep writes too, at a time of its own, and tests count the requests of an exporter
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

func (e *env) begin(c *percolator.Client) *percolator.Txn {
	e.Helper()
	tx, err := c.Begin(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	return tx
}

func (e *env) queueIn(tx *percolator.Txn, key, value string) {
	e.Helper()
	if err := e.queue.Add(tx, key, []byte(value)); err != nil {
		e.Fatal(err)
	}
}

func (e *env) commit(tx *percolator.Txn) {
	e.Helper()
	if _, err := tx.Commit(e.ctx); err != nil {
		e.Fatal(err)
	}
}

// add commits one entry.
func (e *env) add(key, value string) {
	e.Helper()
	tx := e.begin(e.client)
	e.queueIn(tx, key, value)
	e.commit(tx)
}

// pending lists what is queued.
func (e *env) pending() (list []string) {
	e.Helper()
	err := e.client.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for x, err := range e.queue.Pending(ctx, s) {
			if err != nil {
				return err
			}
			list = append(list, x.Key+"="+string(x.Value))
		}
		return nil
	})
	if err != nil {
		e.Fatal(err)
	}
	return list
}

// until waits until cond holds.
func (e *env) until(what string, cond func() bool) {
	e.Helper()
	if !fixture.Until(e.ctx, cond) {
		e.Fatalf("never happened: %s", what)
	}
}

// clean tells whether neither a notification nor a lock is left. It waits for nothing.
func (e *env) clean() bool {
	e.Helper()
	for _, err := range admin.New(e.client).ScanPending(e.ctx, "exports", percolator.All()) {
		if err != nil {
			e.Fatal(err)
		}
		return false
	}
	return true
}

// crashAt makes a client that dies when it sends the n-th request that changes the store.
func (e *env) crashAt(n int) *percolator.Client {
	c, _ := e.faultAt(n, percolatortest.Crash)
	return c
}

// faultAt makes a client with a fault at the n-th request that changes the store. The list of
// workers does not count.
func (e *env) faultAt(n int, effect percolatortest.Effect) (c *percolator.Client, hit func() bool) {
	c = e.NewClient(percolatortest.Name(fmt.Sprintf("%v-%d", effect, n)))
	var sent atomic.Int64
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "percolator_meta" {
			return percolatortest.Pass
		}
		switch r.Method {
		case percolatortest.CheckAndMutateRow, percolatortest.MutateRow, percolatortest.MutateRows:
			if at := sent.Add(1) - 1; at == int64(n) || at > int64(n) && effect == percolatortest.Crash {
				return effect
			}
		}
		return percolatortest.Pass
	})
	return c, func() bool { return sent.Load() > int64(n) }
}

func cell(row string) percolator.Cell { return percolator.Cell{Table: "t", Row: row, Column: "c"} }
