package simulation

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/observers"
)

// operate has parked cells run again now and then.
func (w *world) operate(p *process) {
	for retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(20*time.Second)))) == nil {
		for parked, err := range observers.ListParked(p.ctx, p.client) {
			if err != nil {
				break
			}
			if p.rand.IntN(2) == 0 {
				_ = observers.Retry(p.ctx, p.client, parked)
			}
		}
	}
}

// retryAll has everything that is parked run again, and returns how much that was.
func (w *world) retryAll(ctx context.Context, p *process) (n int) {
	for parked, err := range observers.ListParked(ctx, p.client) {
		if err == nil {
			n++
			err = observers.Retry(ctx, p.client, parked)
		}
		if err != nil {
			w.problem("what is parked: %v", err)
			return n
		}
	}
	return n
}
