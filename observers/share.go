package observers

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/tso"
)

const (
	shareAtOnce    = 256                    // cells that are offered at most
	shareFewest    = 32                     // and at least
	shareAgain     = 10 * time.Millisecond  // after an offer of which some was taken
	shareRarely    = 250 * time.Millisecond // after offers that nobody has taken
	shareFailed    = 5 * time.Second
	shareUnheardOf = time.Minute // with an oracle of a version that hands nothing over
)

// share hands ready cells that this worker will not run soon to workers that wait for work, until
// ctx ends. What nobody waits for stays.
func (w *Worker) share(ctx context.Context) {
	pause, most := shareAgain, shareFewest
	for w.queue.awaitSurplus(ctx) {
		cells := w.queue.takeSurplus(most)
		taken, err := w.handOver(ctx, cells)
		switch {
		case errors.Is(err, tso.ErrUnsupported):
			pause = shareUnheardOf
		case err != nil:
			w.log.Debug("observers: cells were not handed over", "err", err)
			pause = shareFailed
		case taken > 0 && taken == len(cells): // others have room for more
			most = min(2*most, shareAtOnce)
			continue
		case taken > 0:
			most, pause = max(2*taken, shareFewest), shareAgain
		default:
			pause = min(2*pause, shareRarely)
		}
		if retry.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// handOver offers cells to other workers, and keeps those that nobody takes.
func (w *Worker) handOver(ctx context.Context, cells []offered) (taken int, err error) {
	if len(cells) == 0 {
		return 0, nil
	}
	surplus := make([]model.Heard, len(cells))
	for i, c := range cells {
		n := model.Notification{Cell: c.column.cell(c.row), Timestamp: c.ts}
		surplus[i] = model.Heard{Notification: n, HandOvers: c.handOvers + 1, From: w.id}
	}
	at, err := w.engine.Dispatch.HandOver(ctx, surplus)
	var gone, stay []offered
	for i, c := range cells {
		if _, ok := slices.BinarySearch(at, i); ok {
			gone = append(gone, c)
		} else {
			stay = append(stay, c)
		}
	}
	w.queue.keep(stay)
	taken = w.queue.handedOver(gone)
	w.counters.handedOver.Add(int64(taken))
	return taken, err
}

// received queues a cell that another worker hands over.
func (w *Worker) received(h model.Heard) {
	col := w.coverage.taken[Column{h.Cell.Table, h.Cell.Column}]
	if col == nil {
		return
	}
	if h.From == w.id { // this worker has become busy since it asked
		w.queue.takeBack(col, h.Cell.Row, h.Timestamp, h.HandOvers-1)
		return
	}
	waited := max(0, w.age(h.Timestamp)-col.wait())
	if v := w.queue.receive(col, h.Cell.Row, h.Timestamp, h.HandOvers, waited); v == accepted || v == joined {
		w.counters.received.Add(1)
	}
}
