package simulation

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// These bound how long a caller stays who loses patience. A transaction takes some milliseconds, so
// most of them leave while it reads, prewrites or commits.
const (
	leaveAfterLeast = 100 * time.Microsecond
	leaveAfterMost  = 100 * time.Millisecond
)

// limited calls a step with a context of its own, whose end may come at any moment: its caller
// cancels it, or had given it little time.
func (w *world) limited(parent context.Context, r *rand.Rand, step func(context.Context)) {
	ends := w.tally.pick(r, w.impatience(), contextCancelled, deadlineShort)
	after := time.Duration(float64(leaveAfterLeast) * math.Pow(float64(leaveAfterMost/leaveAfterLeast), r.Float64()))
	limit := transactionLimit
	if ends == deadlineShort {
		limit = after
	}
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	if ends == contextCancelled {
		defer time.AfterFunc(after, cancel).Stop()
	}
	step(ctx)
	if ends != "" && ctx.Err() != nil && parent.Err() == nil {
		w.tally.add(ends)
	}
}

// impatience is the probability that the caller of a transaction leaves.
func (w *world) impatience() float64 {
	if w.calm.Load() {
		return 0
	}
	return min(0.01*w.cfg.intensity, 0.1)
}
