package observers_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// direct makes a client use the oracle with all its services.
func (e *env) direct() percolatortest.ClientOption {
	return percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = e.Oracle })
}

// A worker runs for what other processes write without a scan, and one worker takes each change.
func TestHintedByAnotherProcess(t *testing.T) {
	t.Parallel()
	const workers, rows = 3, 60
	e, r, j := newScanEnv(t, table()), observers.NewRegistry(), newJournal()
	r.Observe("o", "t", "in", j.observer("o"))
	var ws []*observers.Worker
	for range workers {
		w, _ := e.start(e.NewClient(e.direct()), r, observers.Config{ScanInterval: time.Hour, Scanners: 1})
		ws = append(ws, w)
	}
	writer := e.NewClient(e.direct())
	for _, w := range ws {
		e.until("the only search", func() bool { return w.Stats().Searches == 1 })
	}
	// The searches and the first questions for hints may not be over: write until they are.
	hinted := func() (n int64) {
		for _, w := range ws {
			n += w.Stats().Hinted
		}
		return n
	}
	for i := 0; hinted() == 0; i++ {
		e.set(writer, fmt.Sprint("early-", i), "in", "x")
	}
	e.searchesDone(ws)
	before := j.count("o")
	for i := range rows {
		e.set(writer, fmt.Sprint("row-", i), "in", "x")
	}
	seen := map[string]int{}
	e.until("all runs", func() bool {
		clear(seen)
		for _, ch := range j.all() {
			seen[ch.Cell.Row]++
		}
		for i := range rows {
			if seen[fmt.Sprint("row-", i)] == 0 {
				return false
			}
		}
		return true
	})
	for i := range rows {
		if n := seen[fmt.Sprint("row-", i)]; n != 1 {
			t.Errorf("row %d had %d runs", i, n)
		}
	}
	if j.count("o")-before < rows {
		t.Errorf("%d runs", j.count("o")-before)
	}
}

// A worker hears of all of its columns, however many it takes.
func TestHintsOfManyColumns(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testHintsOfManyColumns)
}

func testHintsOfManyColumns(t *testing.T) {
	const columns = 600
	many, r, j := percolator.Table{Name: "t"}, observers.NewRegistry(), newJournal()
	for i := range columns {
		name := fmt.Sprint("w", i)
		many.Weak = append(many.Weak, name)
		r.Observe(name, "t", name, j.observer("o"))
	}
	e := newEnv(t, many)
	w, _ := e.start(e.NewClient(e.direct()), r, observers.Config{})
	writer := e.NewClient(e.direct())
	synctest.Wait() // the worker waits for hints
	if _, err := writer.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) (err error) {
		for _, name := range many.Weak {
			err = errors.Join(err, tx.Notify(cell("r", name)))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	e.until("all runs", func() bool { return j.count("o") >= columns })
	if s := w.Stats(); s.Hinted != columns {
		t.Errorf("%d hints have arrived, and %d cells were found", s.Hinted, s.Found)
	}
}

// losing is an oracle that loses hints for a while.
type losing struct {
	*tso.Server
	loses *atomic.Bool
}

func (o losing) LeaveHints(ctx context.Context, hints []coordination.Hint) ([]uint64, error) {
	if o.loses.Load() {
		return nil, nil
	}
	return o.Server.LeaveHints(ctx, hints)
}

// A worker that comes across a cell for which it has no room tells others of it again.
func TestWhatAWorkerHasNoRoomForIsHintedAtAgain(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testWhatAWorkerHasNoRoomForIsHintedAtAgain)
}

func testWhatAWorkerHasNoRoomForIsHintedAtAgain(t *testing.T) {
	e, crowded, idle, j := newEnv(t, table()), observers.NewRegistry(), observers.NewRegistry(), newJournal()
	crowded.Observe("o", "t", "in", j.observer("o"), observers.Collapse(time.Hour))
	idle.Observe("o", "t", "in", j.observer("o"))
	oracle := losing{e.Oracle.(*tso.Server), new(atomic.Bool)}
	writer := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = oracle }))
	e.start(writer, crowded, observers.Config{QueueLength: 1, DisableDispatch: true}) // so it takes no hints
	e.start(e.NewClient(e.direct()), idle, observers.Config{})
	synctest.Wait()
	oracle.loses.Store(true)
	e.set(writer, "waits", "in", "x")
	e.set(writer, "has no room", "in", "x")
	synctest.Wait()
	oracle.loses.Store(false)
	began := time.Now()
	e.until("a run", func() bool { return j.count("o") > 0 })
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it ran after %v", took)
	}
}

// A worker whose waiting cells leave no room hears nothing of columns whose cells would wait:
// others do.
func TestCrowdedWorkerHearsNothingOfWhatWouldWait(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCrowdedWorkerHearsNothingOfWhatWouldWait)
}

func testCrowdedWorkerHearsNothingOfWhatWouldWait(t *testing.T) {
	e, crowded, idle, j := newEnv(t, table()), observers.NewRegistry(), observers.NewRegistry(), newJournal()
	crowded.Observe("o", "t", "in", j.observer("o"), observers.Collapse(time.Hour))
	idle.Observe("o", "t", "in", j.observer("o"))
	writer := e.NewClient(e.direct())
	full, _ := e.start(e.NewClient(e.direct()), crowded, observers.Config{QueueLength: 1})
	synctest.Wait()
	e.set(writer, "waits", "in", "x")
	e.until("it waits", func() bool { return full.Stats().Hinted == 1 })
	e.start(e.NewClient(e.direct()), idle, observers.Config{})
	time.Sleep(time.Minute) // searches are done
	const n = 20
	began := time.Now()
	for i := range n {
		e.set(writer, fmt.Sprint(i), "in", "x")
	}
	e.until("all run", func() bool { return j.count("o") >= n })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("they ran after %v", took)
	}
}

// searchesDone waits until nothing that the workers' first search found is left.
func (e *env) searchesDone(ws []*observers.Worker) {
	e.Helper()
	for _, w := range ws {
		e.idle(w)
	}
}

// With DisableDispatch a worker learns nothing from its own client or from others.
func TestDisableDispatch(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testDisableDispatch)
}

func testDisableDispatch(t *testing.T) {
	e, r, j := newEnv(t, table()), observers.NewRegistry(), newJournal()
	r.Observe("o", "t", "in", j.observer("o"))
	c := e.NewClient(e.direct())
	w, _ := e.start(c, r, observers.Config{ScanInterval: time.Millisecond, DisableDispatch: true})
	for i := range 20 {
		e.set(c, fmt.Sprint(i), "in", "x")
	}
	e.await(j, "o", 20)
	if s := w.Stats(); s.Dispatched != 0 || s.Hinted != 0 || s.Found == 0 {
		t.Errorf("%d dispatched, %d hinted, %d found", s.Dispatched, s.Hinted, s.Found)
	}
}

// quietHints counts the questions for hints and never answers with any.
type quietHints struct {
	tso.Oracle
	asked atomic.Int64
}

func (h *quietHints) LeaveHints(context.Context, []coordination.Hint) ([]uint64, error) {
	return nil, nil
}

func (h *quietHints) TakeHints(ctx context.Context, _ []uint64, _ int, wait time.Duration) ([]coordination.Hint, error) {
	h.asked.Add(1)
	if wait < 20*time.Second {
		return nil, fmt.Errorf("the worker waits for %v only", wait)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// An idle worker has one question for hints open, which lasts 20 s: three requests a minute to the
// oracle.
func TestIdleQuestions(t *testing.T) {
	t.Parallel()
	e, r := newScanEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", newJournal().observer("o"))
	var h quietHints
	c := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { h.Oracle, cfg.Oracle = cfg.Oracle, &h }))
	w, stop := e.start(c, r, observers.Config{ScanInterval: time.Millisecond})
	e.until("fifty searches", func() bool { return w.Stats().Searches >= 50 && h.asked.Load() > 0 })
	stop() // ends the question
	if n := h.asked.Load(); n != 1 {
		t.Errorf("%d questions", n)
	}
}

// TestALateHintCostsOneRoundOfAttempts: hints wait with the oracle while workers are busy, or for
// as long as one may return to ask. A hint reaches a worker after another worker has found the
// notification by its scan and parked the cell. The worker has not read the row yet, so it tries
// once more, parks the cell again, and leaves it alone from then on.
func TestALateHintCostsOneRoundOfAttempts(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testALateHintCostsOneRoundOfAttempts)
}

func testALateHintCostsOneRoundOfAttempts(t *testing.T) {
	const column = "in"
	e := newParkEnv(t, byScans)
	listener := e.NewClient(e.direct())
	e.client = e.NewClient(e.direct())
	asked, cancel := context.WithTimeout(e.ctx, 100*time.Millisecond) // a worker has asked for hints, so they are kept for a while
	_, _ = listener.Engine().Dispatch.AwaitNotifications(asked, dispatch.Question{
		Columns: []percolator.Cell{cell("", column)}, Most: 1, Wait: 20 * time.Second,
	})
	cancel()
	e.change(column, "1")
	if err := e.client.Flush(e.ctx); err != nil {
		t.Fatal(err)
	}
	cfg := parkSoon
	cfg.DisableDispatch = true
	w, stop := e.start(e.NewClient(), e.registry, cfg)
	e.until("the cell is parked", func() bool { return len(e.parked()) == 1 })
	e.idle(w)
	stop()
	e.calls(1, 3)

	c, search := e.NewClient(e.direct()), percolatortest.NewHold()
	first := true
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if first && r.Method == percolatortest.ReadRows && r.Table == "t" && r.Rows == 0 { // its search is slower than the hint
			first = false
			return search
		}
		return percolatortest.Pass
	})
	w, _ = e.start(c, e.registry, observers.Config{MaxAttempts: 3, Scanners: 1, DisableCollection: true})
	search.Wait(t, 1)
	e.until("the hint arrives and is handled", func() bool {
		s := w.Stats()
		return s.Hinted > 0 && s.Queued+s.Running == 0
	})
	search.Release()
	e.idle(w)
	e.searched(w, 4)
	if bad := e.bad.Load(); bad > 6 || len(e.parked()) != 1 {
		t.Fatalf("%d attempts, parked %+v", bad, e.parked())
	}
}

// topic is how clients name a column to the oracle.
func (e *env) topic(table, column string) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(e.Project + "\x00" + e.Instance + "\x00" + table + "\x00" + column))
	return f.Sum64()
}

// TestHintFromTheFuture: correctness must not depend on hints. One that names a cell without a
// notification, at a timestamp in the future, must not erase the cell's later weak notifications.
func TestHintFromTheFuture(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testHintFromTheFuture)
}

func testHintFromTheFuture(t *testing.T) {
	e, j, r := newEnv(t, percolator.Table{Name: "t", Weak: []string{"weak"}}), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "weak", j.observer("o"))
	w, _ := e.start(e.NewClient(e.direct()), r, observers.Config{DisableCollection: true, ScanInterval: 10 * time.Millisecond})
	hint := coordination.Hint{Topic: e.topic("t", "weak"), Data: string(binary.BigEndian.AppendUint64(nil, math.MaxInt64)) + "a"}
	e.until("the hint is taken", func() bool {
		refused, err := e.Oracle.(coordination.Hints).LeaveHints(e.ctx, []coordination.Hint{hint})
		return err == nil && len(refused) == 0
	})
	e.until("it is dealt with", func() bool { s := w.Stats(); return s.Acknowledged > 0 && s.Queued+s.Running == 0 })
	if _, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Notify(cell("a", "weak")) }); err != nil {
		t.Fatal(err)
	}
	e.until("a run, or nothing left to run for", func() bool { return j.count("o") > 0 || len(e.pending()) == 0 })
	e.idle(w)
	if n := j.count("o"); n == 0 {
		t.Error("the notification was erased, and the observer has not run")
	}
}
