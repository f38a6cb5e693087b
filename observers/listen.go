package observers

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

const (
	hintsAtOnce = 256             // the most that one request may return
	hintsRest   = 5 * time.Second // after a request that failed, at random up to twice as long
)

// listen takes the notifications of other processes' clients that the oracle passes on, so that an
// observer runs as soon as the write has committed and not when a scan comes by. It asks for no
// more than can begin at once and leaves the rest to other workers. If the oracle passes no hints
// on, the scan has to find everything, or the adopter in the journal.
func (w *Worker) listen(ctx context.Context) {
	var columns []percolator.Cell
	for c := range w.coverage.taken {
		columns = append(columns, percolator.Cell{Table: c.Table, Column: c.Name})
	}
	most := min(w.cfg.Concurrency, hintsAtOnce)
	for w.queue.awaitRoom(ctx) {
		notified, err := w.engine.Dispatch.AwaitNotifications(ctx, most, columns...)
		switch {
		case errors.Is(err, tso.ErrUnsupported):
			w.deaf.Store(true)
			return
		case ctx.Err() != nil, errors.Is(err, percolator.ErrClosed):
			return
		case err != nil:
			w.log.Debug("observers: hints from other processes do not arrive", "err", err)
			if retry.Sleep(ctx, hintsRest+rand.N(hintsRest)) != nil {
				return
			}
		}
		for _, n := range notified {
			w.hinted(n)
		}
	}
}

// hinted queues what another process has notified. If it does not fit, it is found later. It
// counts as found: because of a look or a scan, another worker may handle it as well.
func (w *Worker) hinted(n model.Notification) {
	if v, _ := w.offer(n, found, nil); v == accepted || v == joined {
		w.counters.hinted.Add(1)
	}
}
