package observers_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// A chain of ten observers, each of which writes the next one's column, runs to its end, once each.
func TestCascadeTenDeep(t *testing.T) {
	t.Parallel()
	const deep = 10
	columns := make([]string, deep)
	for i := range columns {
		columns[i] = fmt.Sprint("step", i)
	}
	e, r := newEnv(t, percolator.Table{Name: "t", Observed: columns}), observers.NewRegistry()
	for i, column := range columns {
		r.Observe(column, "t", column, func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			next := "end"
			if i+1 < deep {
				next = columns[i+1]
			}
			return tx.Set(cell(ch.Cell.Row, next), append(ch.Value, '.'))
		})
	}
	w, _ := e.start(e.client, r, observers.Config{})
	e.set(e.client, "r", columns[0], "")
	e.idle(w)
	if got := e.get("r", "end"); len(got) != deep {
		t.Errorf("%d steps, want %d", len(got), deep)
	}
	if n := w.Stats().Runs; n != deep {
		t.Errorf("%d runs, want %d", n, deep)
	}
}

// One change that changes a hundred cells causes a hundred runs.
func TestFanOut(t *testing.T) {
	t.Parallel()
	const wide = 100
	e, r := newEnv(t, percolator.Table{Name: "t", Observed: []string{"in", "each"}}), observers.NewRegistry()
	r.Observe("spread", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		for i := range wide {
			if err := tx.Set(cell(fmt.Sprint("row", i), "each"), ch.Value); err != nil {
				return err
			}
		}
		return nil
	})
	r.Observe("copy", "t", "each", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		return tx.Set(cell(ch.Cell.Row, "out"), ch.Value)
	})
	w, _ := e.start(e.client, r, observers.Config{})
	e.set(e.client, "r", "in", "x")
	e.idle(w)
	for i := range wide {
		if row := fmt.Sprint("row", i); e.get(row, "out") != "x" {
			t.Fatalf("%s was not run for", row)
		}
	}
	if n := w.Stats().Observers["copy"].Runs; n != wide {
		t.Errorf("%d runs, want %d", n, wide)
	}
}

// An observer that writes the cell that it observes runs for that write as well.
func TestSelfNotification(t *testing.T) {
	t.Parallel()
	const from = 7
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("countdown", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		n, err := strconv.Atoi(string(ch.Value))
		if err != nil || n == 0 {
			return err
		}
		return tx.Set(ch.Cell, []byte(strconv.Itoa(n-1)))
	})
	w, _ := e.start(e.client, r, observers.Config{})
	e.set(e.client, "r", "in", strconv.Itoa(from))
	e.idle(w)
	if got := e.get("r", "in"); got != "0" {
		t.Errorf("it stopped at %q", got)
	}
	if n := w.Stats().Runs; n != from+1 {
		t.Errorf("%d runs, want %d", n, from+1)
	}
	if rows := e.pending(); len(rows) != 0 {
		t.Errorf("still pending: %v", rows)
	}
}

// Any number of writers notify one weak cell without a conflict, and its observer sees what all of
// them wrote.
func TestWeakNotificationsNeverConflict(t *testing.T) {
	t.Parallel()
	const writers = 64
	e, r := newEnv(t, percolator.Table{Name: "t", Weak: []string{"poke"}}), observers.NewRegistry()
	var mu sync.Mutex
	most := 0
	r.Observe("count", "t", "poke", func(ctx context.Context, tx *percolator.Txn, _ observers.Change) error {
		n := 0
		for _, err := range tx.Scan(ctx, "t", percolator.Prefix("member"), "c") {
			if err != nil {
				return err
			}
			n++
		}
		mu.Lock()
		defer mu.Unlock()
		most = max(most, n)
		return nil
	})
	clients := []*percolator.Client{e.client, e.NewClient(), e.NewClient(), e.NewClient()}
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			_, err := clients[i%len(clients)].Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
				if err := tx.Notify(cell("hub", "poke")); err != nil {
					return err
				}
				return tx.Set(cell(fmt.Sprint("member", i), "c"), []byte("x"))
			}, percolator.MaxAttempts(1))
			if err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	w, _ := e.start(e.client, r, observers.Config{})
	e.idle(w)
	if most != writers {
		t.Errorf("the observer saw %d of %d", most, writers)
	}
	if n := w.Stats().Runs; n < 1 || n > writers {
		t.Errorf("%d runs for %d notifications", n, writers)
	}
	if rows := e.pending(); len(rows) != 0 {
		t.Errorf("still pending: %v", rows)
	}
}
