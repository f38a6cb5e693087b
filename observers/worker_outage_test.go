package observers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// An outage of a minute is a few lines of the log, whatever waits: the client says that nothing
// answers, the worker that its runs wait, and each once that it is over.
func TestAnOutageIsFewLines(t *testing.T) {
	for _, what := range []string{"the store", "the oracle"} {
		eachFindingInBubble(t, what, func(t *testing.T, by finding) { testAnOutageIsFewLines(t, by, what) })
	}
}

func testAnOutageIsFewLines(t *testing.T, by finding, what string) {
	tables := []percolator.Table{{Name: "t", Observed: []string{"in"}, Weak: []string{"weak"}}}
	e, r := newEnvOf(t, by, tables), observers.NewRegistry()
	var log logBuffer
	var down atomic.Bool
	lost := func(r percolatortest.Request) percolatortest.Action {
		if down.Load() && (r.Method == percolatortest.Oracle) == (what == "the oracle") {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	}
	c := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}), percolatortest.Handler(lost))
	e.FaultsOf(c).HandleJournal(lost)
	const cells = 300
	gate := make(chan struct{})
	for _, column := range []string{"in", "weak"} {
		r.Observe(column, "t", column, func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			<-gate
			if _, err := tx.GetMulti(ctx, cell(ch.Cell.Row, "other")); err != nil {
				return fmt.Errorf("reading the other: %w", err)
			}
			return tx.Set(cell(ch.Cell.Row, "done-"+column), nil)
		})
	}
	w, stop := e.start(c, r, observers.Config{Concurrency: 8})
	for i := range cells {
		_, err := c.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
			row := fmt.Sprintf("row-%03d", i)
			if err := tx.Set(cell(row, "in"), []byte("secret")); err != nil {
				return err
			}
			return tx.Notify(cell(row, "weak"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	down.Store(true)
	close(gate)
	time.Sleep(61 * time.Second) // attempts time out every 30 s
	down.Store(false)
	e.idle(w)
	time.Sleep(time.Minute)
	stop()
	said := log.String()
	for _, line := range []string{what + " does not answer", "runs cannot finish", what + " answers again", "runs finish again"} {
		if n := strings.Count(said, line); n != 1 {
			t.Errorf("%d times %q", n, line)
		}
	}
	if n := strings.Count(said, "\n"); n != 4 || t.Failed() {
		t.Errorf("%d lines, want 4:\n%s", n, said)
	}
}

// An outage is over, and the next one is said, also for cells that fail then by their own fault.
func TestAnOutageIsOverForCellsThatFail(t *testing.T) {
	eachFindingInBubble(t, "the oracle", func(t *testing.T, by finding) {
		tables := []percolator.Table{{Name: "t", Observed: []string{"in"}}}
		e, r := newEnvOf(t, by, tables), observers.NewRegistry()
		var log logBuffer
		var down atomic.Bool
		c := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		}), percolatortest.Handler(func(r percolatortest.Request) percolatortest.Action {
			if down.Load() && r.Method == percolatortest.Oracle {
				return percolatortest.LoseRequest
			}
			return percolatortest.Pass
		}))
		r.Observe("o", "t", "in", func(context.Context, *percolator.Txn, observers.Change) error { return errors.New("no price") })
		w, _ := e.start(c, r, observers.Config{MaxAttempts: 3})
		for i := range 2 {
			_, err := c.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(cell(fmt.Sprint(i), "in"), nil) })
			if err != nil {
				t.Fatal(err)
			}
			down.Store(true)
			time.Sleep(20 * time.Second)
			down.Store(false)
			e.idle(w)
			time.Sleep(30 * time.Second)
		}
		said := log.String()
		for _, line := range []string{"runs cannot finish", "runs finish again"} {
			if n := strings.Count(said, line); n != 2 {
				t.Errorf("%d times %q, want 2:\n%s", n, line, said)
			}
		}
	})
}

// What keeps some cells of an observer waiting, while others run, is a few lines of the log.
func TestAStallOfSomeCellsIsFewLines(t *testing.T) {
	eachFindingInBubble(t, "", func(t *testing.T, by finding) {
		tables := []percolator.Table{{Name: "t", Observed: []string{"in"}}}
		e, r := newEnvOf(t, by, tables), observers.NewRegistry()
		var log logBuffer
		var over atomic.Bool
		r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row == "waits" && !over.Load() {
				return fmt.Errorf("reading prices: %w", model.ErrImporting)
			}
			return nil
		})
		w, _ := e.start(e.client, r, observers.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), MaxBackoff: time.Second})
		e.set(e.client, "waits", "in", "1")
		for i := range 50 {
			e.set(e.client, fmt.Sprint(i), "in", "1")
			time.Sleep(time.Second)
		}
		over.Store(true)
		e.idle(w)
		said := log.String()
		if n, again := strings.Count(said, "runs cannot finish"), strings.Count(said, "runs finish again"); n == 0 || n > 2 || again != n {
			t.Errorf("it said:\n%s", said)
		}
	})
}
