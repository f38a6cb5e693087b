package observers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// lockService is a row-lock service that a test controls.
type lockService struct {
	mu     sync.Mutex
	held   map[uint64]string
	taken  bool // everything is locked by somebody else
	down   bool
	asked  int
	wanted chan struct{} // told about each request to lock
}

func newLockService() *lockService {
	return &lockService{held: map[uint64]string{}, wanted: make(chan struct{}, 1)}
}

func (s *lockService) LockRows(_ context.Context, holder string, ttl time.Duration, rows []uint64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	select {
	case s.wanted <- struct{}{}:
	default:
	}
	if s.down {
		return 0, errors.New("no answer")
	}
	for i, r := range rows {
		if by := s.held[r]; s.taken || by != "" && by != holder {
			return i, nil
		}
		s.held[r] = holder
	}
	return len(rows), nil
}

func (s *lockService) UnlockRows(_ context.Context, holder string, rows []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errors.New("no answer")
	}
	for _, r := range rows {
		if s.held[r] == holder {
			delete(s.held, r)
		}
	}
	return nil
}

func (s *lockService) set(taken, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken, s.down = taken, down
}

func (s *lockService) locked() (held, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held), s.asked
}

func counting(runs *sync.Map) *observers.Registry {
	r := observers.NewRegistry()
	r.Observe("count", "t", "c", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		runs.Store(ch.Cell.Row, true)
		return nil
	})
	return r
}

// A scanner keeps off rows that another worker has locked, and returns to them.
func TestScannersKeepOffLockedRows(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testScannersKeepOffLockedRows)
}

func testScannersKeepOffLockedRows(t *testing.T) {
	e := newScanEnv(t, percolator.Table{Name: "t", Observed: []string{"c"}})
	for i := range 20 {
		e.set(e.client, fmt.Sprint("row", i), "c", "v")
	}
	service := newLockService()
	service.set(true, false)
	var runs sync.Map
	w, _ := e.start(e.NewClient(), counting(&runs), observers.Config{RowLocks: service, ScanInterval: time.Millisecond, Scanners: 1})
	for w.Stats().Teleports < 3 { // it has met the locks, and gone elsewhere
		select {
		case <-service.wanted:
		case <-e.ctx.Done():
			t.Fatal("the scanner met no lock")
		}
	}
	if n := w.Stats().Attempts; n != 0 {
		t.Errorf("%d attempts at rows that another worker has locked", n)
	}
	service.set(false, false)
	e.idle(w)
	if n := w.Stats().Runs; n != 20 {
		t.Errorf("%d runs, want 20", n)
	}
	e.until("all rows are unlocked", func() bool { held, _ := service.locked(); return held == 0 })
}

// Without the service, and while it does not answer, everything gets done.
func TestScannersWithoutRowLockService(t *testing.T) {
	t.Parallel()
	e := newScanEnv(t, percolator.Table{Name: "t", Observed: []string{"c"}})
	for i := range 20 {
		e.set(e.client, fmt.Sprint("row", i), "c", "v")
	}
	service := newLockService()
	service.set(true, true)
	var runs sync.Map
	w, stop := e.start(e.NewClient(), counting(&runs), observers.Config{RowLocks: service})
	fixture.Eventually(t, "a search", func() bool { _, asked := service.locked(); return asked > 0 })
	e.idle(w)
	if n := w.Stats().Runs; n != 20 {
		t.Errorf("%d runs, want 20", n)
	}
	stop()
	_, asked := service.locked()
	if searches := w.Stats().Searches; asked == 0 || int64(asked) > 2 && searches < 2 {
		t.Errorf("a service that does not answer was asked %d times in %d searches", asked, searches)
	}

	e.set(e.client, "another", "c", "v")
	w, _ = e.start(e.NewClient(), counting(&runs), observers.Config{RowLocks: service, DisableRowLocks: true})
	e.idle(w)
	if _, ok := runs.Load("another"); !ok {
		t.Error("a change was not seen")
	}
	if _, again := service.locked(); again != asked {
		t.Error("a service that is not to be used was asked")
	}
}

// Rows locked by a worker that is gone do not count as done: WaitIdle finds them regardless of
// locks, and the observer runs for them.
func TestLockedRowsAreNotForgotten(t *testing.T) {
	t.Parallel()
	e := newScanEnv(t, percolator.Table{Name: "t", Observed: []string{"c"}})
	for i := range 20 {
		e.set(e.client, fmt.Sprint("row", i), "c", "v")
	}
	service := newLockService()
	service.set(true, false) // for ever
	var runs sync.Map
	w, _ := e.start(e.NewClient(), counting(&runs), observers.Config{RowLocks: service, ScanInterval: time.Millisecond})
	e.searched(w, 5)
	if n := w.Stats().Attempts; n != 0 {
		t.Errorf("%d attempts at rows that another worker has locked", n)
	}
	e.idle(w)
	if n := w.Stats().Runs; n != 20 {
		t.Errorf("%d runs when WaitIdle had returned, want 20", n)
	}
	if rows := e.pending(); len(rows) != 0 {
		t.Errorf("still pending: %v", rows)
	}
}

// rowLocks starts an oracle for its row locks.
func (e *env) rowLocks() coordination.RowLocks {
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
type lateLocks struct{ coordination.RowLocks }

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
		t.Errorf("%d jobs were for nothing", twice)
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
