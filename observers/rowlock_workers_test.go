package observers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// rowLocks starts an oracle for its row locks.
func (e *env) rowLocks() tso.RowLocks {
	e.Helper()
	s, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	e.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			e.Errorf("the oracle: %v", err)
		}
	})
	e.until("the oracle leads", func() bool { _, err := s.Next(e.ctx); return err == nil })
	return lateLocks{s}
}

// lateLocks always waits for the answer: on a busy machine scanners would time out and go on.
type lateLocks struct{ tso.RowLocks }

func (l lateLocks) LockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) (int, error) {
	return l.RowLocks.LockRows(context.WithoutCancel(ctx), holder, ttl, rows)
}

func (l lateLocks) UnlockRows(ctx context.Context, holder string, rows []uint64) error {
	return l.RowLocks.UnlockRows(context.WithoutCancel(ctx), holder, rows)
}

// fill makes rows dirty while no worker runs.
func (e *env) fill(rows int) {
	e.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range rows {
		group.Go(func() error { e.set(e.client, fmt.Sprintf("%05d", i), "in", "x"); return nil })
	}
	_ = group.Wait()
}

// together runs workers, each with its own client, until nothing is left, and returns the sum of
// their counts.
func (e *env) together(workers int, cfg observers.Config) (sum observers.Stats) {
	e.Helper()
	r := observers.NewRegistry()
	r.Observe("o", "t", "in", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	var list []*observers.Worker
	var stops []func()
	for range workers {
		w, stop := e.start(e.NewClient(), r, cfg)
		list, stops = append(list, w), append(stops, stop)
	}
	e.until("nothing is pending", func() bool { return len(e.pending()) == 0 }) // WaitIdle would queue without regard to locks
	for i, w := range list {
		stops[i]()
		s := w.Stats()
		sum.Found, sum.Rows, sum.Teleports = sum.Found+s.Found, sum.Rows+s.Rows, sum.Teleports+s.Teleports
		sum.Runs, sum.Attempts, sum.Acknowledged, sum.Conflicts = sum.Runs+s.Runs, sum.Attempts+s.Attempts, sum.Acknowledged+s.Acknowledged, sum.Conflicts+s.Conflicts
	}
	return sum
}

// Three workers find rows that were dirty before. Each row is for one of them; the others keep off
// it until it is done. (When rows were locked only until they were queued, nearly all were queued
// by two workers.)
func TestWorkersDoNotWorkTwice(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, testWorkersDoNotWorkTwice)
}

func testWorkersDoNotWorkTwice(t *testing.T) {
	const rows = 600
	e := newScanEnv(t, table())
	e.fill(rows)
	locks := e.rowLocks()
	s := e.together(3, observers.Config{RowLocks: locks, DisableCollection: true})
	t.Logf("%d found, %d rows read, %d runs, %d attempts, %d conflicts, %d acknowledged, %d teleports",
		s.Found, s.Rows, s.Runs, s.Attempts, s.Conflicts, s.Acknowledged, s.Teleports)
	if s.Runs != rows {
		t.Errorf("%d runs for %d changes", s.Runs, rows)
	}
	if twice := s.Acknowledged + s.Conflicts; twice > rows/10 {
		t.Errorf("%d turns were for nothing", twice)
	}
}

// Workers that have stopped keep nobody off anything.
func TestStoppedWorkersUnlockTheirRows(t *testing.T) {
	t.Parallel()
	e := newScanEnv(t, table())
	e.fill(20)
	service, r := newLockService(), observers.NewRegistry()
	held := make(chan struct{}, 20)
	r.Observe("o", "t", "in", func(ctx context.Context, _ *percolator.Txn, _ observers.Change) error {
		held <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	_, stop := e.start(e.NewClient(), r, observers.Config{RowLocks: service, Concurrency: 3, DrainTimeout: 1})
	for range 3 {
		<-held
	}
	e.until("the page is queued", func() bool { n, _ := service.locked(); return n == 20 })
	stop()
	if n, _ := service.locked(); n != 0 {
		t.Errorf("%d rows are locked by a worker that has stopped", n)
	}
}
