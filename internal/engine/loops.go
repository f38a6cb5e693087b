package engine

import (
	"context"

	"github.com/gopercolator/percolator/percolator/model"
)

// Loops is how a test hears of observers whose runs cause each other without end (package
// observers): nothing fails, so the test would wait for ever.
type Loops struct {
	// Report hears once of each loop that a worker of the client finds. It must not block.
	Report func(observer string, c model.Cell, runs int)
	// Failed ends when the test has failed for a loop. Its cause says so.
	Failed context.Context
}

// UntilLoop is ctx, which also ends when the client's test has failed for a loop. The caller calls
// the function that it returns when it is done.
func (e *Engine) UntilLoop(ctx context.Context) (context.Context, func()) {
	if e.Loops == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.Loops.Failed, func() { cancel(context.Cause(e.Loops.Failed)) })
	return ctx, func() { stop(); cancel(nil) }
}
