package observers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

func TestConflictsAreRetried(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	const cells = 50
	r.Observe("counter", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		n, err := tx.GetForUpdate(ctx, cell("total", "n"))
		if err != nil && !errors.Is(err, percolator.ErrNotFound) {
			return err
		}
		return tx.Set(cell("total", "n"), append(n, '.'))
	})
	for i := range cells {
		e.set(e.client, fmt.Sprint(i), "in", "x")
	}
	w, _ := e.start(e.client, r, observers.Config{Concurrency: 16})
	e.idle(w)
	if got := e.get("total", "n"); got != strings.Repeat(".", cells) {
		t.Fatalf("%d counted, want %d", len(got), cells)
	}
	if s := w.Stats(); s.Runs != cells || s.Parked != 0 || s.Errors != 0 || s.Panics != 0 || s.Attempts-s.Conflicts != cells {
		t.Fatalf("stats %+v", s)
	}
}

func TestPanicsAndErrorsBackOffAndAreParked(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		j.add(ch.Cell.Row, ch)
		switch ch.Cell.Row {
		case "panics":
			panic("poison")
		case "fails":
			return errors.New("poison")
		}
		return tx.Set(cell(ch.Cell.Row, "out"), ch.Value)
	})
	const attempts = 5
	w, _ := e.start(e.client, r, observers.Config{MaxAttempts: attempts, MinBackoff: time.Millisecond, Concurrency: 1, Scanners: 1, ScanInterval: 10 * time.Millisecond})
	e.set(e.client, "panics", "in", "1")
	e.set(e.client, "fails", "in", "1")
	for i := range 50 {
		e.set(e.client, fmt.Sprint("healthy", i), "in", "1")
	}
	e.idle(w)
	for i := range 50 {
		if e.get(fmt.Sprint("healthy", i), "out") != "1" {
			t.Fatalf("healthy row %d was not run", i)
		}
	}
	p := e.parked()
	if len(p) != 2 || p[0].Cell != cell("fails", "in") || p[1].Cell != cell("panics", "in") || p[0].Attempts != attempts {
		t.Fatalf("parked %+v", p)
	}
	if !strings.Contains(p[1].Reason, `observer "o"`) || !strings.Contains(p[1].Reason, "panicked: poison") {
		t.Fatalf("the panic became %q", p[1].Reason)
	}
	for i, ch := range j.all() {
		if ch.Cell.Row == "panics" && ch.Attempt > attempts {
			t.Fatalf("call %d is attempt %d", i, ch.Attempt)
		}
	}
	// The scan meets the parked rows again and again, and leaves them alone.
	e.searched(w, 4)
	if j.count("panics") != attempts || j.count("fails") != attempts {
		t.Fatalf("parked rows were run: %d and %d times", j.count("panics"), j.count("fails"))
	}
	// A newer change gets new attempts.
	e.set(e.client, "fails", "in", "2")
	e.idle(w)
	if j.count("fails") != 2*attempts {
		t.Fatalf("%d attempts after a new change", j.count("fails"))
	}
	if s := w.Stats(); s.Panics != attempts || s.Errors != 2*attempts || s.Parked != 3 {
		t.Fatalf("stats %+v", s)
	}
}

// pointerError is an error whose nil pointer has no text.
type pointerError struct{ text string }

func (e *pointerError) Error() string { return e.text }

// An observer that returns a nil pointer as an error fails, and its worker goes on.
func TestAnErrorWithoutTextIsAPanic(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		var none *pointerError
		if ch.Cell.Row == "wraps" {
			return fmt.Errorf("pricing: %w", none)
		}
		return none
	})
	w, _ := e.start(e.client, r, observers.Config{MaxAttempts: 2, MinBackoff: time.Millisecond})
	e.set(e.client, "bare", "in", "1")
	e.set(e.client, "wraps", "in", "1")
	e.idle(w)
	p := e.parked()
	if len(p) != 2 || !strings.Contains(p[0].Reason, "panicked: ") || !strings.Contains(p[1].Reason, "pricing: ") {
		t.Fatalf("parked %+v", p)
	}
	if s := w.Stats(); s.Panics != 2 || s.Errors != 2 {
		t.Fatalf("stats %+v", s)
	}
}

func TestGoexitCostsNoGoroutine(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		j.add("o", ch)
		if ch.Attempt == 1 {
			runtime.Goexit() // as FailNow of a test does
		}
		return nil
	})
	w, _ := e.start(e.client, r, observers.Config{Concurrency: 1, MinBackoff: time.Millisecond})
	for i := range 3 {
		e.set(e.client, fmt.Sprint(i), "in", "1")
	}
	e.idle(w)
	if s := w.Stats(); s.Runs != 3 || s.Errors != 3 {
		t.Fatalf("stats %+v", s)
	}
}

func TestTimeoutEndsAHangingObserver(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", func(ctx context.Context, _ *percolator.Txn, ch observers.Change) error {
		j.add("o", ch)
		<-ctx.Done()
		return ctx.Err()
	}, observers.Timeout(200*time.Millisecond))
	w, _ := e.start(e.client, r, observers.Config{MaxAttempts: 1})
	// The timeout may end before the observer is called. That does not count as an attempt.
	e.set(e.client, "r", "in", "1")
	e.await(j, "o", 1)
	e.idle(w)
	if p := e.parked(); len(p) != 1 || !strings.Contains(p[0].Reason, context.DeadlineExceeded.Error()) {
		t.Fatalf("parked %+v", p)
	}
}

func TestMaxConcurrentOfAnObserver(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	var now, most atomic.Int64
	r.Observe("o", "t", "in", func(context.Context, *percolator.Txn, observers.Change) error {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return nil
	}, observers.MaxConcurrent(2))
	for i := range 40 {
		e.set(e.client, fmt.Sprint(i), "in", "1")
	}
	w, _ := e.start(e.client, r, observers.Config{Concurrency: 16})
	e.idle(w)
	if most.Load() > 2 || w.Stats().Runs != 40 {
		t.Fatalf("%d at once; %d runs", most.Load(), w.Stats().Runs)
	}
}

func TestStopDrains(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	release := make(chan struct{})
	r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		j.add("o", ch)
		<-release
		return tx.Set(cell(ch.Cell.Row, "out"), ch.Value)
	})
	w, err := observers.NewWorker(e.client, r, observers.Config{Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for i := range 10 {
		e.set(e.client, fmt.Sprint(i), "in", "1")
	}
	e.await(j, "o", 2)
	cancel()
	e.until("the queue is closed", func() bool { return w.Stats().Queued == 0 }) // it takes nothing more
	select {
	case err := <-done:
		t.Fatalf("Run returned %v while observers were running", err)
	default:
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Runs != 2 || s.Attempts != 2 {
		t.Fatalf("stats %+v: want the two runs in flight, and no other", s)
	}
	if n := len(e.pending()); n != 8 {
		t.Fatalf("%d notifications remain, want 8", n)
	}
	if err := w.Run(e.ctx); !errors.Is(err, observers.ErrStarted) {
		t.Fatalf("second Run: %v", err)
	}
}

func TestDrainTimeoutCancels(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", func(ctx context.Context, _ *percolator.Txn, ch observers.Change) error {
		j.add("o", ch)
		<-ctx.Done()
		return ctx.Err()
	})
	w, stop := e.start(e.client, r, observers.Config{DrainTimeout: time.Millisecond})
	e.set(e.client, "r", "in", "1")
	e.await(j, "o", 1)
	stop()
	if s := w.Stats(); s.Runs != 0 || s.Running != 0 || len(e.pending()) != 1 {
		t.Fatalf("stats %+v, pending %v", s, e.pending())
	}
}

func TestRunEndsWhenTheClientIsClosed(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", newJournal().observer("o"))
	c := e.NewClient()
	w, err := observers.NewWorker(c, r, observers.Config{ScanInterval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(e.ctx) }()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, percolator.ErrClosed) {
			t.Fatalf("Run: %v", err)
		}
	case <-e.ctx.Done():
		t.Fatal("Run goes on without a client")
	}
}

// An observer leaves the end of its transaction to the worker: an attempt to end it fails, and what
// it writes is committed with the acknowledgment.
func TestWorkersEndTheTransactionsOfObservers(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		if _, err := tx.Commit(ctx); !errors.Is(err, percolator.ErrInvalidArgument) {
			e.Errorf("Commit: %v", err)
		}
		if err := tx.Rollback(ctx); !errors.Is(err, percolator.ErrInvalidArgument) {
			e.Errorf("Rollback: %v", err)
		}
		j.add("o", ch)
		return tx.Set(cell(ch.Cell.Row, "out"), ch.Value)
	})
	w, _ := e.start(e.client, r, observers.Config{})
	e.set(e.client, "r", "in", "1")
	e.idle(w)
	if got := e.get("r", "out"); got != "1" || j.count("o") != 1 {
		t.Errorf("%q after %d runs", got, j.count("o"))
	}
}
