package observers_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// A change can be postponed more often than attempts may fail: that is no failure, nothing is
// written, and in the end the observer runs for it.
func TestSnoozesAreNoFailures(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	var calls atomic.Int64
	const offs = 5
	r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		if ch.Attempt != 1 {
			t.Errorf("attempt %d", ch.Attempt)
		}
		n := calls.Add(1)
		if err := tx.Set(cell("r", "out"), []byte(fmt.Sprint(n))); err != nil {
			return err
		}
		if n <= offs {
			return fmt.Errorf("not yet: %w", observers.Snooze(time.Millisecond))
		}
		return nil
	})
	e.set(e.client, "r", "in", "x")
	w, _ := e.start(e.client, r, observers.Config{MaxAttempts: 2})
	e.idle(w)
	if got := e.get("r", "out"); got != fmt.Sprint(offs+1) {
		t.Errorf("written by call %q, want %d", got, offs+1)
	}
	if s := w.Stats(); s.Snoozes != offs || s.Runs != 1 || s.Errors != 0 || s.Parked != 0 {
		t.Errorf("stats %+v", s)
	}
}

// Failures between two snoozes count as before.
func TestSnoozeDoesNotForgiveFailures(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	var calls atomic.Int64
	r.Observe("o", "t", "in", func(context.Context, *percolator.Txn, observers.Change) error {
		if calls.Add(1)%2 == 1 {
			return observers.Snooze(-time.Second)
		}
		return errors.New("poison")
	})
	e.set(e.client, "r", "in", "x")
	w, _ := e.start(e.client, r, observers.Config{MaxAttempts: 3, MinBackoff: time.Millisecond})
	e.idle(w)
	if p := e.parked(); len(p) != 1 || p[0].Attempts != 3 || calls.Load() != 6 {
		t.Errorf("parked %+v after %d calls", p, calls.Load())
	}
}

// A postponed cell holds up no other, and WaitIdle waits for it.
func TestSnoozeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	var open atomic.Bool
	r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		if ch.Cell.Row == "late" && !open.Load() {
			return observers.Snooze(time.Millisecond)
		}
		return tx.Set(cell(ch.Cell.Row, "out"), ch.Value)
	})
	e.set(e.client, "late", "in", "x")
	w, _ := e.start(e.client, r, observers.Config{Concurrency: 1})
	e.until("the first cell is put off", func() bool { return w.Stats().Snoozes > 0 })
	for i := range 20 {
		e.set(e.client, fmt.Sprint(i), "in", "x")
	}
	e.until("the others have run", func() bool { return w.Stats().Runs == 20 })
	soon, cancel := context.WithTimeout(e.ctx, 20*time.Millisecond)
	defer cancel()
	if err := w.WaitIdle(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitIdle with a cell that is put off: %v", err)
	}
	open.Store(true)
	e.idle(w)
	if e.get("late", "out") != "x" {
		t.Error("the cell that was put off was not run for")
	}
}
