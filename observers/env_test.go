package observers_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// testTimeout bounds what a test waits for; no test waits for it to pass.
const testTimeout = 2 * time.Minute

// env is a store for one test, with an oracle whose time only the test moves.
type env struct {
	testing.TB
	*percolatortest.Env
	ctx    context.Context
	client *percolator.Client
	by     finding
}

func newEnv(t testing.TB, tables ...percolator.Table) *env {
	t.Helper()
	return newEnvOf(t, byJournal, tables)
}

// newScanEnv is newEnv without a journal: workers scan the tables.
func newScanEnv(t testing.TB, tables ...percolator.Table) *env {
	t.Helper()
	return newEnvOf(t, byScans, tables)
}

// finding is how workers find what nobody has told them of.
type finding string

const (
	byJournal finding = "by the journal"
	byScans   finding = "by scans"
)

// eachFinding runs a test both ways.
func eachFinding(t *testing.T, name string, f func(t *testing.T, by finding)) {
	for _, by := range []finding{byJournal, byScans} {
		t.Run(strings.TrimSpace(name+" "+string(by)), func(t *testing.T) {
			t.Parallel()
			f(t, by)
		})
	}
}

// eachFindingInBubble is eachFinding in virtual time.
func eachFindingInBubble(t *testing.T, name string, f func(t *testing.T, by finding)) {
	eachFinding(t, name, func(t *testing.T, by finding) {
		percolatortest.Bubble(t, func(t *testing.T) { f(t, by) })
	})
}

func newEnvOf(t testing.TB, by finding, tables []percolator.Table, opts ...percolatortest.Option) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	e := percolatortest.New(t, &percolator.Schema{Tables: tables, DisableJournal: by == byScans}, opts...)
	e.Clock.Stop()
	return &env{t, e, ctx, e.Client, by}
}

// start runs a worker until the test ends, and returns a function that ends it earlier. Unless cfg
// says otherwise it does not wait for other workers to run for what it finds.
func (e *env) start(c *percolator.Client, r *observers.Registry, cfg observers.Config) (*observers.Worker, func()) {
	e.Helper()
	cfg.Grace = cmp.Or(cfg.Grace, -1)
	w, err := observers.NewWorker(c, r, cfg)
	if err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop := sync.OnceFunc(func() {
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

func cell(row, column string) percolator.Cell {
	return percolator.Cell{Table: "t", Row: row, Column: column}
}

// set writes a cell.
func (e *env) set(c *percolator.Client, row, column, value string) tso.Timestamp {
	e.Helper()
	ts, err := c.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(cell(row, column), []byte(value)) })
	if err != nil {
		e.Fatal(err)
	}
	return ts
}

func (e *env) get(row, column string) string {
	e.Helper()
	var value []byte
	err := e.client.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) (err error) {
		values, err := s.GetMulti(ctx, cell(row, column))
		if err == nil {
			value = values[0]
		}
		return err
	})
	if err != nil {
		e.Fatal(err)
	}
	return string(value)
}

// pending lists the rows that carry notifications or locks.
func (e *env) pending() []string {
	e.Helper()
	var rows []string
	for p, err := range e.client.Engine().Reads.ScanPending(e.ctx, "t", percolator.All()) {
		if err != nil {
			e.Fatal(err)
		}
		rows = append(rows, p.Row)
	}
	return rows
}

// parked lists what is parked in the table t.
func (e *env) parked() []observers.Parked {
	e.Helper()
	var list []observers.Parked
	for p, err := range observers.ListParked(e.ctx, e.client, "t") {
		if err != nil {
			e.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// retryParked retries everything that is parked in the table t.
func (e *env) retryParked() {
	e.Helper()
	for _, p := range e.parked() {
		if err := observers.Retry(e.ctx, e.client, p); err != nil {
			e.Fatal(err)
		}
	}
}

// journal is what the observers of a test have seen.
type journal struct {
	mu      sync.Mutex
	changes []observers.Change
	names   []string
	grown   chan struct{}
}

func newJournal() *journal { return &journal{grown: make(chan struct{})} }

func (j *journal) add(name string, ch observers.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changes, j.names = append(j.changes, ch), append(j.names, name)
	close(j.grown)
	j.grown = make(chan struct{})
}

func (j *journal) count(name string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, x := range j.names {
		if x == name {
			n++
		}
	}
	return n
}

// await waits until name has been called n times.
func (e *env) await(j *journal, name string, n int) {
	e.Helper()
	e.awaitWithin(e.ctx, j, name, n)
}

func (e *env) awaitWithin(ctx context.Context, j *journal, name string, n int) {
	e.Helper()
	for {
		j.mu.Lock()
		grown := j.grown
		j.mu.Unlock()
		if j.count(name) >= n {
			return
		}
		select {
		case <-grown:
		case <-ctx.Done():
			e.Fatalf("%s was called %d times, want %d", name, j.count(name), n)
		}
	}
}

func (j *journal) all() []observers.Change {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.changes)
}

// observer returns a Func that logs its changes.
func (j *journal) observer(name string) observers.Func {
	return func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		j.add(name, ch)
		return nil
	}
}

// until waits until cond holds.
func (e *env) until(what string, cond func() bool) {
	e.Helper()
	if !fixture.Until(e.ctx, cond) {
		e.Fatalf("never happened: %s", what)
	}
}

// searched waits until the scanners of w have started n more searches after those in flight.
// By the journal w looks so often at everything that is unfinished.
func (e *env) searched(w *observers.Worker, n int64) {
	e.Helper()
	if e.by == byJournal {
		for range n {
			if err := w.Survey(e.ctx); err != nil {
				e.Fatal(err)
			}
		}
		return
	}
	started := w.Stats().Searches
	e.until("another search", func() bool { return w.Stats().Searches > started+n })
}

// reads waits until the client has sent n more requests that read rows.
func (e *env) reads(c *percolator.Client, n int) {
	e.Helper()
	count := func() (n int) {
		for _, r := range e.FaultsOf(c).Requests() {
			if r.Method == percolatortest.ReadRows {
				n++
			}
		}
		return n
	}
	before := count()
	e.until("another read", func() bool { return count() >= before+n })
}

// plant writes a cell of the notify family, as no client would.
func (e *env) plant(row, column string, ts int64, value []byte) {
	e.Helper()
	mut := bigtable.NewMutation()
	mut.Set("notify", column, bigtable.Timestamp(ts*1000), value)
	if err := e.Store().Open("t").Apply(e.ctx, row, mut); err != nil {
		e.Fatal(err)
	}
}
