package percolatortest

import (
	"context"
	"fmt"
	"sync"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/percolator"
)

// newLoops fails the test, by name, when an observer's runs cause each other without end
// (observers.Registry.Observe). Then WaitIdle returns, so that the test ends.
func (e *Env) newLoops() *engine.Loops {
	var mu sync.Mutex
	ended := false
	failed, fail := context.WithCancelCause(context.Background())
	e.cleanUp(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		fail(nil)
	})
	return &engine.Loops{
		Failed: failed,
		Report: func(observer string, c percolator.Cell, runs int) {
			mu.Lock()
			defer mu.Unlock()
			if ended { // a worker that the test has left behind must not use its testing.TB
				return
			}
			err := fmt.Errorf("observer %q has caused its own next run for %v %d times in a row (observers.Repeats is for observers that are meant to)", observer, c, runs)
			e.t.Errorf("percolatortest: %v", err)
			fail(err)
		},
	}
}
