package loader_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestASourceThatPanicsLeavesNothingRunning: the panic is the caller's, who may recover from it (as
// net/http does). Then nothing of the load may go on: Progress is called, and the position saved,
// by nobody.
func TestASourceThatPanicsLeavesNothingRunning(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e := newEnv(t)
		var calls atomic.Int64
		func() {
			defer func() {
				if recover() == nil {
					t.Fatal("the panic did not arrive")
				}
			}()
			_, _ = loader.Load(e.ctx, e.Client, loader.Config{
				Name: "p", ProgressInterval: time.Millisecond, Progress: func(loader.Progress) { calls.Add(1) },
			}, loader.Job[string]{
				Source: func(context.Context, loader.Position) iter.Seq2[loader.Item[string], error] {
					return func(yield func(loader.Item[string], error) bool) {
						yield(loader.Item[string]{Value: "a"}, nil)
						panic("the source is broken")
					}
				},
				Write: loader.Each(set),
			})
		}()
		after := calls.Load()
		ctx, cancel := context.WithTimeout(e.ctx, 2*time.Second)
		defer cancel()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for calls.Load() < after+20 {
			select {
			case <-ctx.Done():
				return // nobody calls it any more
			case <-tick.C:
			}
		}
		t.Errorf("Progress was called %d times after Load was left", calls.Load()-after)
	})
}
