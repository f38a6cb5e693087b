package emulator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// The crash matrix of a batch observer's run. A worker's client writes three cells, and the worker
// runs for them in one transaction. Every request of that transaction meets a fault; where the
// worker is dead or stopped another one comes, which knows the tables only. In the end each change
// of an observed cell has one run that committed (I12), each weak notification at least one (I11),
// and nothing is left (I10, I13).

// batchCells is how many cells there are in a batch.
const batchCells = 3

// batchRun is one cell of this matrix.
type batchRun struct {
	testing.TB
	ctx    context.Context
	env    *matrixEnv
	column percolator.Cell // without a row
	prefix string          // of its rows
	rows   map[string]string
	client *percolator.Client
	faults *percolatortest.Faults
	hold   *percolatortest.Hold
	target requestID
	struck atomic.Bool
}

// batchFault is what happens to the target, and to its sender.
type batchFault struct {
	name  string
	act   func(x *batchRun) percolatortest.Action // of the target
	after percolatortest.Action                   // of everything that comes after it; nil: passes
	stops bool                                    // the worker stops, until another one has done everything
	held  bool                                    // the worker dies when the target is held
}

func batchFaults() []batchFault {
	always := func(a percolatortest.Action) func(*batchRun) percolatortest.Action {
		return func(*batchRun) percolatortest.Action { return a }
	}
	held := func(x *batchRun) percolatortest.Action { return x.hold }
	return []batchFault{
		{name: "lost once", act: always(percolatortest.LoseRequest)},
		{name: "its answer lost once", act: always(percolatortest.LoseAnswer)},
		{name: "delivered twice", act: always(percolatortest.Duplicate)},
		{name: "a copy delivered late", act: func(x *batchRun) percolatortest.Action { return x.hold.Copy() }},
		{name: "the worker dies before it", act: always(percolatortest.Crash)},
		{name: "the worker dies after it", act: always(percolatortest.LoseAnswer), after: percolatortest.Crash},
		{name: "delivered late, its worker dead", act: held, held: true},
		{name: "the worker stopped before it", act: held, stops: true},
		{name: "the worker stopped after it", act: func(x *batchRun) percolatortest.Action { return x.hold.Answer() }, stops: true},
	}
}

func TestCrashMatrixOfBatches(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	var struck, ran, all atomic.Int64
	for _, column := range []percolator.Cell{{Table: "left", Column: "seen"}, {Table: "right", Column: "poke"}} {
		t.Run(column.Column, func(t *testing.T) {
			t.Parallel()
			envs := make(chan *matrixEnv, matrixEnvs)
			for range cap(envs) {
				envs <- newMatrixEnv(t)
			}
			t.Run("matrix", func(t *testing.T) {
				env := <-envs
				targets := recordBatch(t, env, column)
				envs <- env
				var cells sync.WaitGroup
				defer cells.Wait()
				for _, target := range targets {
					for _, f := range batchFaults() {
						if all.Add(1); !fixture.Sampled(column.Column + target.String() + f.name) {
							continue
						}
						env := <-envs
						cells.Go(func() {
							defer func() { envs <- env }()
							t.Run(target.String()+"/"+f.name, func(t *testing.T) {
								ran.Add(1)
								if newBatchRun(t, env, column, target).play(f) {
									struck.Add(1)
								}
							})
						})
					}
				}
			})
			for range cap(envs) {
				(<-envs).Audit(t, func(cfg *model.AuditConfig) {
					cfg.Observers = map[[2]string][]string{{"left", "seen"}: {"batch"}}
				})
			}
		})
	}
	t.Cleanup(func() {
		t.Logf("%d cells, in %d of which the fault has struck", ran.Load(), struck.Load())
		few := ran.Load() >= enoughCells && struck.Load()*4 < ran.Load()*3
		if !fixture.Picked() && (all.Load() < 150 || few) {
			t.Error("that is too few")
		}
	})
}

func newBatchRun(t testing.TB, m *matrixEnv, column percolator.Cell, target requestID) *batchRun {
	x := &batchRun{TB: t, ctx: boundedContext(t), env: m, column: column, target: target, hold: percolatortest.NewHold(),
		prefix: fmt.Sprintf("batch-%05d-", m.runs.Add(1)), rows: map[string]string{}}
	for i := range batchCells {
		x.rows[column.Table+"/"+x.cell(i).Row] = fmt.Sprint("C", i)
	}
	x.client = m.NewClient()
	x.faults = m.FaultsOf(x.client)
	return x
}

func (x *batchRun) cell(i int) percolator.Cell {
	c := x.column
	c.Row = fmt.Sprint(x.prefix, i)
	return c
}

// run is the row where a run for a cell leaves its record: the run's alone.
func (x *batchRun) run(cell string, start tso.Timestamp) percolator.Cell {
	return percolator.Cell{Table: "left", Row: fmt.Sprintf("run-%s-%020d", cell, start), Column: "plain"}
}

// worker runs batches until stop is called.
func (x *batchRun) worker(c *percolator.Client) (w *observers.Worker, stop func()) {
	x.Helper()
	r := observers.NewRegistry()
	r.ObserveBatch("batch", x.column.Table, x.column.Column, func(_ context.Context, tx *percolator.Txn, changes []observers.Change) error {
		for _, ch := range changes {
			if err := tx.Set(x.run(ch.Cell.Row, tx.StartTimestamp()), fmt.Append(nil, ch.CommitTS)); err != nil {
				return err
			}
		}
		return nil
	}, observers.MaxCells(batchCells), observers.MaxWait(50*time.Millisecond))
	w, err := observers.NewWorker(c, r, observers.Config{
		Columns: []observers.Column{{Table: x.column.Table, Name: x.column.Column}}, MaxAttempts: 1000, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
		DisableCollection: true, SweepInterval: -1, ReportInterval: -1, DrainTimeout: time.Millisecond, Grace: -1,
	})
	fixture.Must(x, err)
	ctx, cancel := context.WithCancel(x.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return w, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !x.faults.Crashed() {
			x.Errorf("Run: %v", err)
		}
	})
}

// write notifies all cells by one transaction of the worker's client.
func (x *batchRun) write() {
	x.Helper()
	_, err := x.client.Update(x.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range batchCells {
			notify := tx.Notify
			if x.column.Column == "seen" {
				notify = func(c percolator.Cell) error { return tx.Set(c, []byte("new")) }
			}
			if err := notify(x.cell(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !x.struck.Load() {
		x.Fatal(err)
	}
}

// recordBatch returns the requests of a run without faults, those for the write left out.
func recordBatch(t *testing.T, m *matrixEnv, column percolator.Cell) []requestID {
	t.Helper()
	const times = 3
	sent := map[requestID]int{}
	for range times {
		x := newBatchRun(t, m, column, requestID{})
		w, stop := x.worker(x.client)
		seen := x.watch(func(requestID) percolatortest.Action { return percolatortest.Pass })
		x.write()
		fixture.Eventually(t, "the run", func() bool { s := w.Stats(); return s.Cells == batchCells && s.Queued+s.Running == 0 })
		fixture.Must(t, x.client.Flush(x.ctx))
		stop()
		for id := range seen() {
			sent[id]++
		}
		fixture.Must(t, x.client.Close())
		x.check()
	}
	var targets []requestID
	for id, n := range sent {
		first, weak := 0, column.Column == "poke" // of the batch, behind those of the write
		switch {
		case id.role == roleAppend, id.role == "notify weakly", !weak && id.role != "read" && strings.HasPrefix(id.where, "C"):
			first = 1
		}
		if n == times && id.nth > first && id.where != "percolator_meta" && id.role != "journal" {
			targets = append(targets, id)
		}
	}
	slices.SortFunc(targets, func(a, b requestID) int { return strings.Compare(a.String(), b.String()) })
	t.Logf("requests of a batch: %v", targets)
	return targets
}

// watch calls decide for every request of the client from now on, but for timestamps of the write,
// the number of which is not always the same. seen returns them.
func (x *batchRun) watch(decide func(requestID) percolatortest.Action) (seen func() map[requestID]bool) {
	var mu sync.Mutex
	count, all, written := newCensus(x.rows), map[requestID]bool{}, false
	next := func(r percolatortest.Request) percolatortest.Action {
		mu.Lock()
		defer mu.Unlock()
		if role := roleOf(r); role == "commit" || role == "notify weakly" {
			written = true
		} else if role == "timestamp" && !written {
			return percolatortest.Pass
		}
		id := count.next(r)
		all[id] = true
		return decide(id)
	}
	x.faults.Handle(next)
	x.faults.HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if roleOf(r) != roleAppend {
			return percolatortest.Pass
		}
		return next(r)
	})
	return func() map[requestID]bool {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// play runs a cell of the matrix, and reports whether the fault has struck.
func (x *batchRun) play(f batchFault) bool {
	w, stop := x.worker(x.client)
	defer stop()
	x.watch(func(id requestID) percolatortest.Action {
		switch {
		case id == x.target:
			x.struck.Store(true)
			if f.stops {
				x.faults.Pause()
			}
			return f.act(x)
		case x.struck.Load() && f.after != nil:
			return f.after
		}
		return percolatortest.Pass
	})
	x.write()
	fixture.Eventually(x, "the run, or its fault", func() bool {
		s := w.Stats()
		done := s.Cells+s.Acknowledged >= batchCells && s.Queued+s.Running == 0
		return done || x.faults.Crashed() || (f.stops || f.held) && len(x.hold.Requests()) > 0
	})
	if f.held {
		x.faults.Crash()
	}
	if x.faults.Crashed() {
		stop()
	}
	x.finish()
	x.hold.Release()
	if f.stops {
		x.faults.Resume()
		fixture.Eventually(x, "the end of the worker that was stopped", func() bool { s := w.Stats(); return s.Queued+s.Running == 0 })
	}
	stop()
	crashed := x.faults.Crashed()
	if err := x.client.Close(); err != nil && !crashed {
		x.Error(err)
	}
	x.finish()
	x.check()
	return x.struck.Load()
}

// finish has another worker do what is left.
func (x *batchRun) finish() {
	x.Helper()
	x.env.Clock.Advance(fixture.LockTTL + time.Minute)
	c := x.env.NewClient()
	w, stop := x.worker(c)
	fixture.Must(x, w.WaitIdle(x.ctx))
	stop()
	fixture.Must(x, c.Close())
}

// check looks at the records of the runs, and for what is left of the notifications.
func (x *batchRun) check() {
	x.Helper()
	for i := range batchCells {
		var runs []string
		err := x.env.other.View(x.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			for e, err := range s.Scan(ctx, "left", percolator.Prefix("run-"+x.cell(i).Row+"-")) {
				if err != nil {
					return err
				}
				runs = append(runs, e.Cell.Row)
			}
			return nil
		})
		fixture.Must(x, err)
		if weak := x.column.Column == "poke"; len(runs) == 0 || !weak && len(runs) > 1 {
			x.Errorf("%d runs for %s have committed: %q", len(runs), x.cell(i).Row, runs)
		}
	}
	for p, err := range x.env.other.Engine().Reads.ScanPending(x.ctx, x.column.Table, percolator.Prefix(x.prefix)) {
		fixture.Must(x, err)
		if len(p.Notified) > 0 {
			x.Errorf("left in row %s: %v", p.Row, p.Notified)
		}
	}
}
