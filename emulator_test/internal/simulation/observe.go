package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// observe runs the observers. A worker that ends with an error, such as one of the store that no
// repetition mends, begins again; so does one whose client has learned of another schema.
func (w *world) observe(p *process) {
	for p.ctx.Err() == nil {
		schema := p.client.Schema()
		worker, err := observers.NewWorker(p.client, w.work.ObserversOf(p.name, p.client, schema), observers.Config{
			Concurrency: 8, MaxBackoff: time.Second, DrainTimeout: 2 * time.Second, MaxAttempts: 2 + p.rand.IntN(20),
			DisableCollection: !w.cfg.workersCollect, Collector: w.collectorConfig(),
		})
		switch {
		case errors.Is(err, percolator.ErrSchemaMismatch) && schema != p.client.Schema():
			continue
		case err != nil:
			w.problem("%s: %v", p.name, err)
			return
		}
		err = worker.Run(whileKnown(p, schema))
		// Otherwise a table is gone.
		known := schema == p.client.Schema() || !errors.Is(err, percolator.ErrSchemaMismatch)
		if err != nil && !p.Dead() && known {
			w.note("%s ended: %v", p.name, err)
			if w.cfg.intensity == 0 {
				w.problem("%s: %v", p.name, err)
			}
			_ = retry.Sleep(p.ctx, time.Second)
		}
	}
}

// whileKnown ends with the work of the process, or when its client knows another schema.
func whileKnown(p *process, schema *percolator.Schema) context.Context {
	ctx, cancel := context.WithCancel(p.ctx)
	p.work.Go(func() {
		defer cancel()
		for p.client.Schema() == schema && retry.Sleep(p.ctx, time.Second) == nil {
		}
	})
	return ctx
}
