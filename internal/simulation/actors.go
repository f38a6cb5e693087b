package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator/admin"
)

// transactionLimit bounds a transaction.
const transactionLimit = time.Minute

// transact makes transactions in several sessions.
func (w *world) transact(p *process) {
	var sessions sync.WaitGroup
	for range w.cfg.sessions {
		s := w.work.NewSession(p.client, p.name, p.Dead, rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64())))
		sessions.Go(func() {
			for p.ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(p.ctx, transactionLimit)
				s.Step(ctx)
				cancel()
			}
		})
	}
	sessions.Wait()
}

// lingerers is how many snapshots last at a time.
const lingerers = 2

// linger keeps snapshots for a long time.
func (w *world) linger(p *process) {
	var sessions sync.WaitGroup
	for range lingerers {
		s := w.work.NewSession(p.client, p.name, p.Dead, rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64())))
		sessions.Go(func() {
			for p.ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(p.ctx, 4*transactionLimit)
				s.Linger(ctx)
				cancel()
			}
		})
	}
	sessions.Wait()
}

// observe runs the observers. A worker that ends with an error, such as one of the store that no
// repetition mends, begins again.
func (w *world) observe(p *process) {
	for p.ctx.Err() == nil {
		worker, err := observers.NewWorker(p.client, w.work.Observers(p.name, p.client), observers.Config{
			Concurrency: 8, MaxBackoff: time.Second, DrainTimeout: 2 * time.Second, MaxAttempts: 1000, DisableCollection: true,
		})
		if err != nil {
			w.problem("%s: %v", p.name, err)
			return
		}
		if err := worker.Run(p.ctx); err != nil && !p.Dead() {
			w.note("%s ended: %v", p.name, err)
			if w.cfg.intensity == 0 {
				w.problem("%s: %v", p.name, err)
			}
			_ = retry.Sleep(p.ctx, time.Second)
		}
	}
}

// collect collects one cycle after the other.
func (w *world) collect(p *process) {
	g, err := admin.New(p.client).NewCollector(collectorConfig())
	if err != nil {
		w.problem("%v", err)
		return
	}
	for p.ctx.Err() == nil {
		_, _ = g.Collect(p.ctx)
		_ = retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(10*time.Second))))
	}
}

func collectorConfig() admin.CollectorConfig {
	return admin.CollectorConfig{Interval: time.Second, Lease: 10 * time.Second, RowsPerSecond: 1_000_000}
}
