package percolatortest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// failing is a test that may fail.
type failing struct {
	testing.TB

	mu     sync.Mutex
	errors []string
}

func (f *failing) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *failing) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errors
}

// TestLoopsFailByName: an observer that writes what it observes fails the test, once and by name,
// and whatever waits for its worker returns, also where time stands still as long as it runs.
func TestLoopsFailByName(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(ctx context.Context, w *observers.Worker, env *percolatortest.Env) error{
		"a worker": func(ctx context.Context, w *observers.Worker, _ *percolatortest.Env) error { return w.WaitIdle(ctx) },
		"without one": func(ctx context.Context, _ *observers.Worker, env *percolatortest.Env) error {
			return observers.WaitIdle(ctx, env.NewClient(), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				inner := &failing{TB: t}
				env := percolatortest.New(inner, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"in"}}}})
				r := observers.NewRegistry()
				r.Observe("sisyphus", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error { return tx.Set(ch.Cell, nil) })
				w, err := observers.NewWorker(env.Client, r, observers.Config{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- w.Run(ctx) }()
				if _, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
					return tx.Set(percolator.Cell{Table: "t", Row: "r", Column: "in"}, nil)
				}); err != nil {
					t.Fatal(err)
				}
				err = wait(ctx, w, env)
				var left *observers.NotIdleError
				if !errors.As(err, &left) || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `"sisyphus"`) {
					t.Errorf("waiting: %v", err)
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if all := inner.all(); len(all) != 1 || !strings.Contains(all[0], `"sisyphus"`) || !strings.Contains(all[0], `t/"r"/"in"`) {
					t.Errorf("the test failed with %q", all)
				}
			})
		})
	}
}
