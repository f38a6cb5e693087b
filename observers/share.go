package observers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/tso"
)

const (
	shareAtOnce    = 256                    // cells that are offered at most
	shareFewest    = 32                     // and at least
	shareAgain     = 10 * time.Millisecond  // after an offer of which some was taken
	shareRarely    = 250 * time.Millisecond // after offers that were not taken
	shareFailed    = 5 * time.Second
	shareUnheardOf = time.Minute // with an oracle of a version that hands nothing over
)

// share hands ready cells that this worker will not run soon to workers that wait for work, until
// ctx ends. Cells without a taker stay.
func (w *Worker) share(ctx context.Context) {
	pause, most := shareAgain, shareFewest
	for w.queue.awaitSurplus(ctx) {
		offers := w.queue.takeSurplus(most)
		cells := 0
		for _, o := range offers {
			cells += len(o)
		}
		taken, err := w.handOver(ctx, offers)
		switch {
		case errors.Is(err, tso.ErrUnsupported):
			pause = shareUnheardOf
		case err != nil:
			w.log.Debug("observers: cells were not handed over", "err", err)
			pause = shareFailed
		case taken > 0 && taken == cells: // others have room for more
			most = min(2*most, shareAtOnce)
			continue
		case taken > 0:
			most, pause = max(2*taken, shareFewest), shareAgain
		default:
			pause = min(2*pause, shareRarely)
		}
		if model.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// handOver makes offers to other workers, and keeps the cells that none takes.
func (w *Worker) handOver(ctx context.Context, offers [][]offered) (taken int, err error) {
	if len(offers) == 0 {
		return 0, nil
	}
	surplus := make([]model.Surplus, len(offers))
	for i, cells := range offers {
		offers[i] = slices.SortedFunc(slices.Values(cells), func(a, b offered) int { return cmp.Compare(a.row, b.row) })
		surplus[i] = surplusOf(w.id, offers[i])
	}
	firsts, err := w.engine.Dispatch.HandOver(ctx, surplus)
	if err != nil {
		firsts = make([]int, len(offers))
	}
	var gone, stay [][]offered
	for i, cells := range offers {
		gone, stay = append(gone, cells[:firsts[i]]), append(stay, cells[firsts[i]:])
	}
	w.queue.keep(stay)
	taken = w.queue.handedOver(gone)
	w.counters.handedOver.Add(int64(taken))
	return taken, err
}

// surplusOf is what another worker is told of offered cells.
func surplusOf(from uint64, cells []offered) model.Surplus {
	s := model.Surplus{From: from}
	for _, c := range cells {
		s.Notified = append(s.Notified, model.Notification{Cell: c.column.cell(c.row), Timestamp: c.ts})
		s.HandOvers = max(s.HandOvers, c.handOvers+1)
	}
	return s
}

// received queues cells that another worker hands over.
func (w *Worker) received(s model.Surplus) {
	first := s.Notified[0]
	col := w.coverage.taken[Column{first.Cell.Table, first.Cell.Column}]
	if col == nil {
		return
	}
	if s.From == w.id { // this worker has become busy since it asked
		w.queue.takeBack(col, s.Notified, s.HandOvers-1)
		return
	}
	waited := max(0, w.age(first.Timestamp)-col.wait())
	w.counters.received.Add(w.queue.receive(col, s.Notified, s.HandOvers, waited))
}
