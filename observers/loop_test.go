package observers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// clocked notes when an observer runs.
type clocked struct {
	mu sync.Mutex
	at []time.Time
}

func (c *clocked) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Now())
}

// pauses are those before the runs from the given one on, n of them.
func (c *clocked) pauses(from, n int) (list []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := from; i < from+n && i < len(c.at); i++ {
		list = append(list, c.at[i].Sub(c.at[i-1]))
	}
	return list
}

// A worker warns of a loop, slows it down ever more, and WaitIdle names its cells.
func TestLoopsAreNamedAndSlowedDown(t *testing.T) {
	t.Parallel()
	write := func(row, column string) func(*percolator.Txn) error {
		return func(tx *percolator.Txn) error { return tx.Set(cell(row, column), []byte("again")) }
	}
	for name, c := range map[string]struct {
		table    percolator.Table
		register func(r *observers.Registry, runs *clocked)
		column   string
	}{
		"an observer that writes what it observes": {table(), func(r *observers.Registry, runs *clocked) {
			r.Observe("o", "t", "in", looping(runs, write("a", "in")))
		}, "in"},
		"two that write what the other one observes": {percolator.Table{Name: "t", Observed: []string{"in", "hop"}}, func(r *observers.Registry, runs *clocked) {
			r.Observe("o", "t", "in", looping(runs, write("b", "hop")))
			r.Observe("p", "t", "hop", looping(new(clocked), write("a", "in")))
		}, "in"},
		"a weak one that notifies itself": {percolator.Table{Name: "t", Weak: []string{"poke"}}, func(r *observers.Registry, runs *clocked) {
			r.Observe("o", "t", "poke", looping(runs, func(tx *percolator.Txn) error { return tx.Notify(cell("a", "poke")) }))
		}, "poke"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				e, r, runs := newEnv(t, c.table), observers.NewRegistry(), new(clocked)
				e.client.Engine().Loops = nil // as in a program
				c.register(r, runs)
				testLoop(t, e, r, runs, c.column)
			})
		})
	}
}

func looping(runs *clocked, f func(*percolator.Txn) error) observers.Func {
	return func(_ context.Context, tx *percolator.Txn, _ observers.Change) error {
		runs.run()
		return f(tx)
	}
}

func testLoop(t *testing.T, e *env, r *observers.Registry, runs *clocked, column string) {
	var quiet, loud logBuffer
	log := slog.New(slog.NewMultiHandler(slog.NewTextHandler(&quiet, nil), slog.NewTextHandler(&loud, &slog.HandlerOptions{Level: slog.LevelDebug})))
	w, stop := e.start(e.client, r, observers.Config{Logger: log, DisableCollection: true, MinBackoff: time.Second, MaxBackoff: 4 * time.Second})
	_, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		if column == "poke" {
			return tx.Notify(cell("a", column))
		}
		return tx.Set(cell("a", column), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	waiting, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	err = w.WaitIdle(waiting)
	var left *observers.NotIdleError
	if !errors.As(err, &left) || !errors.Is(err, context.DeadlineExceeded) || len(left.Cells) == 0 {
		t.Fatalf("WaitIdle: %v", err)
	}
	if first := left.Cells[0]; first.Runs < 1000 || first.Observer == "" || !strings.Contains(err.Error(), first.String()) {
		t.Errorf("it names %+v: %v", first, err)
	}
	if err := observers.WaitIdle(waiting, e.client, nil); err == nil {
		t.Error("idle without a worker")
	}
	stop()
	// Jitter shortens pauses by up to half.
	for _, d := range runs.pauses(1002, 2) {
		if d < time.Second/2 || d > 2*time.Second {
			t.Errorf("a pause of %v after 1,000 runs", d)
		}
	}
	for _, d := range runs.pauses(100, 800) {
		if d > time.Second/2 {
			t.Fatalf("a pause of %v before", d)
		}
	}
	for text, want := range map[string]bool{
		quiet.String(): false, loud.String(): true,
	} {
		if !strings.Contains(text, "level=WARN") || !strings.Contains(text, "observer=") || !strings.Contains(text, "column=") || !strings.Contains(text, "runs=1000") || strings.Contains(text, "row=") != want {
			t.Errorf("the log says\n%s", text)
		}
	}
}

// What an observer handles in parts, and says so, is not slowed down; nor is one whose loop ends.
func TestLoopsThatAreMeantToBe(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]observers.Option{"fewer": nil, "Repeats": {observers.Repeats()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				e, r, runs, left := newEnv(t, table()), observers.NewRegistry(), new(clocked), 900
				if opts != nil {
					left = 1100
				}
				r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
					runs.run()
					if len(runs.at) == left {
						return nil
					}
					return tx.Set(ch.Cell, nil)
				}, opts...)
				w, _ := e.start(e.client, r, observers.Config{DisableCollection: true, MinBackoff: time.Minute, MaxBackoff: time.Hour})
				e.set(e.client, "a", "in", "1")
				started := time.Now()
				e.idle(w)
				if len(runs.at) != left || time.Since(started) > time.Minute {
					t.Errorf("%d runs in %v, want %d at once", len(runs.at), time.Since(started), left)
				}
			})
		})
	}
}

// TestNotIdleErrorNamesFewCells: ten in the field and three in the text, with or without a worker.
func TestNotIdleErrorNamesFewCells(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", func(context.Context, *percolator.Txn, observers.Change) error { return observers.Snooze(time.Hour) })
	w, _ := e.start(e.client, r, observers.Config{})
	for i := range 12 {
		e.set(e.client, fmt.Sprint("row-", i), "in", "1")
	}
	if err := e.client.Flush(e.ctx); err != nil {
		t.Fatal(err)
	}
	for name, wait := range map[string]func(ctx context.Context, looked func()) error{
		"a worker": func(ctx context.Context, looked func()) error {
			looked()
			return w.WaitIdle(ctx)
		},
		"without one": func(ctx context.Context, looked func()) error {
			return observers.WaitIdle(ctx, e.client, func(observers.Remaining) { looked() })
		},
	} {
		ctx, cancel := context.WithCancel(e.ctx)
		err := wait(ctx, cancel)
		var left *observers.NotIdleError
		if !errors.As(err, &left) || !errors.Is(err, context.Canceled) || len(left.Cells) != 10 || strings.Count(err.Error(), `t/"row-`) != 3 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
