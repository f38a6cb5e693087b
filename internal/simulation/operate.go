package simulation

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/observers"
)

// operate has parked cells run again now and then, or abandons the change. Now and then the process
// dies of it.
func (w *world) operate(p *process) {
	for retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(10*time.Second)))) == nil {
		for parked, err := range observers.ListParked(p.ctx, p.client) {
			if err != nil {
				break
			}
			action := p.rand.IntN(4)
			if action > 2 {
				continue
			}
			if w.cfg.intensity > 0 && p.rand.IntN(4) == 0 && !w.calm.Load() {
				w.killSoon(p, time.Duration(p.rand.Int64N(int64(operatorLives))))
			}
			if action == 0 && w.work.Spares(parked) {
				w.tally.add(dropped)
				_ = observers.Drop(p.ctx, p.client, parked)
				continue
			}
			_ = observers.Retry(p.ctx, p.client, parked)
		}
	}
}

// operatorLives is how long an operator lives, at most, that dies of what it does: some requests.
const operatorLives = 8 * time.Millisecond

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
