package observers_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

func TestRunEndsBeforeItBegins(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", newJournal().observer("o"))
	w, err := observers.NewWorker(e.client, r, observers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// calledOn is a log handler that calls f on each record.
type calledOn struct {
	slog.Handler
	f func(slog.Record)
}

func (h calledOn) Enabled(context.Context, slog.Level) bool { return true }
func (h calledOn) Handle(_ context.Context, r slog.Record) error {
	h.f(r)
	return nil
}
func (h calledOn) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h calledOn) WithGroup(string) slog.Handler      { return h }

// The transaction of an observer that has failed has ended: whatever the observer has left behind,
// a goroutine above all, must not commit it, nor with it the acknowledgment.
func TestNobodyCommitsForAnObserverThatHasFailed(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	var mu sync.Mutex
	var kept *percolator.Txn
	runs := 0
	r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		mu.Lock()
		defer mu.Unlock()
		if runs++; runs > 1 {
			return nil
		}
		kept = tx
		if err := tx.Set(cell(ch.Cell.Row, "out"), []byte("of the failed run")); err != nil {
			return err
		}
		return errors.New("no")
	})
	var once sync.Once
	log := slog.New(calledOn{slog.DiscardHandler, func(rec slog.Record) {
		if rec.Message != "observers: an attempt failed" {
			return
		}
		once.Do(func() {
			if ts, err := kept.Commit(e.ctx); err == nil {
				t.Errorf("the transaction of the failed run commits at %d", ts)
			}
		})
	}})
	w, _ := e.start(e.client, r, observers.Config{Logger: log})
	e.set(e.client, "r", "in", "1")
	e.idle(w)
	mu.Lock()
	defer mu.Unlock()
	if got := e.get("r", "out"); got != "" || runs != 2 {
		t.Errorf("%q after %d runs, want nothing after 2", got, runs)
	}
}
