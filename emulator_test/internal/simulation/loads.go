package simulation

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/retry"
)

// load runs one load after the other, and goes on with that of a process that died.
func (w *world) load(p *process) {
	for p.ctx.Err() == nil {
		_ = retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(4*time.Second))))
		n := w.work.Loaded()
		if n == workload.MaxLoads {
			<-p.ctx.Done()
			return
		}
		err := w.work.Load(p.ctx, p.name, p.client, n)
		if err != nil && w.cfg.intensity == 0 && p.ctx.Err() == nil {
			w.problem("%s: load %d: %v", p.name, n, err)
			return
		}
		if err == nil {
			w.tally.add(loaded)
		}
	}
}

// finishLoad ends the load under way, or one more.
func (w *world) finishLoad(ctx context.Context, p *process) {
	n := w.work.Loaded()
	if n == workload.MaxLoads {
		return
	}
	if err := w.work.Load(ctx, p.name, p.client, n); err != nil {
		w.problem("load %d does not end after the last fault: %v", n, err)
	}
}
