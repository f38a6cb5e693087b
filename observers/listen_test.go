package observers_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
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

func (h *quietHints) LeaveHints(context.Context, []tso.Hint) ([]uint64, error) { return nil, nil }

func (h *quietHints) TakeHints(ctx context.Context, _ []uint64, _ int, wait time.Duration) ([]tso.Hint, error) {
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
