package observers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Cells stay where they were dispatched as long as this worker runs them soon: that costs nothing,
// and chains keep their caches. Its backlog, which is what is ready beyond that, goes to workers
// with idle slots, the oldest first, because these wait longest. The gap between a backlog and an
// idle slot, and the limit of hand-overs of a cell, keep cells from going back and forth.
//
// offer.go says what a backlog is and takes cells of it, loans.go what was handed over.

const (
	offerFewest = 32  // cells that are offered together at least
	offerMost   = 256 // and at most

	offerAgain       = 10 * time.Millisecond  // after an offer of which some was taken
	offerRefused     = 250 * time.Millisecond // at most, after offers of which nothing was taken
	offerFailed      = 5 * time.Second
	offerUnsupported = time.Minute // with an oracle of a version that hands nothing over
)

// offerPace is how much a worker offers, and how long it pauses after an offer of which not
// everything was taken.
type offerPace struct {
	most  int // cells of the next offer; offerFewest to offerMost
	pause time.Duration
}

// after is the pace after an offer of which so many cells were taken.
func (p offerPace) after(offered, taken int, err error) offerPace {
	switch {
	case errors.Is(err, tso.ErrUnsupported):
		return offerPace{p.most, offerUnsupported}
	case err != nil:
		return offerPace{p.most, offerFailed}
	case taken == 0:
		return offerPace{p.most, min(2*p.pause, offerRefused)}
	case taken == offered: // others have room for more
		return offerPace{min(2*p.most, offerMost), p.pause}
	default:
		return offerPace{max(2*taken, offerFewest), offerAgain}
	}
}

// handOver hands cells that this worker will not run soon to workers that wait for work, until ctx
// ends. Cells that none takes stay.
func (w *Worker) handOver(ctx context.Context) {
	pace := offerPace{offerFewest, offerAgain}
	for w.queue.awaitBacklog(ctx) {
		offered, taken, err := w.offerCells(ctx, w.queue.takeBacklog(pace.most))
		if err != nil && !errors.Is(err, tso.ErrUnsupported) {
			w.log.Debug("observers: cells were not handed over", "err", err)
		}
		pace = pace.after(offered, taken, err)
		if all := taken > 0 && taken == offered && err == nil; !all && retry.Sleep(ctx, pace.pause) != nil {
			return
		}
	}
}

// offerCells makes offers to other workers, and keeps the cells that none takes. It returns how
// many cells were offered and taken.
func (w *Worker) offerCells(ctx context.Context, offers [][]offer) (offered, taken int, err error) {
	if len(offers) == 0 {
		return 0, 0, nil
	}
	handOvers := make([]dispatch.HandOver, len(offers))
	for i, cells := range offers {
		offers[i] = slices.SortedFunc(slices.Values(cells), func(a, b offer) int { return cmp.Compare(a.row, b.row) })
		handOvers[i] = handOverOf(w.id, offers[i])
		offered += len(cells)
	}
	firsts, err := w.engine.Dispatch.HandOver(ctx, handOvers)
	if err != nil {
		firsts = make([]int, len(offers))
	}
	var gone, kept [][]offer
	for i, cells := range offers {
		gone, kept = append(gone, cells[:firsts[i]]), append(kept, cells[firsts[i]:])
	}
	w.queue.keep(kept)
	taken = w.queue.handedOver(gone)
	w.counters.handedOver.Add(int64(taken))
	return offered, taken, err
}

// handOverOf is what another worker is told of offered cells.
func handOverOf(from uint64, cells []offer) dispatch.HandOver {
	s := dispatch.HandOver{From: from}
	for _, c := range cells {
		s.Notified = append(s.Notified, model.Notification{Cell: c.column.cell(c.row), Timestamp: c.ts})
		s.Times = max(s.Times, c.handOvers+1)
	}
	return s
}

// received queues cells that another worker hands over.
func (w *Worker) received(s dispatch.HandOver) {
	first := s.Notified[0]
	col := w.column(first.Cell)
	if col == nil {
		return
	}
	if s.From == w.id { // all slots of this worker are busy since it asked
		w.queue.takeBack(col, s.Notified, s.Times-1)
		return
	}
	waited := max(0, w.age(first.Timestamp)-col.wait())
	w.counters.received.Add(w.queue.receive(col, s.Notified, s.Times, waited))
}

// awaitIdleSlots waits until there are idle slots, or a time has passed. A worker whose runs fail
// has none for others: it would swallow their work. open is false when ctx has ended or the queue
// is closed.
func (q *queue) awaitIdleSlots(ctx context.Context, most time.Duration) (idle, open bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		q.mu.Lock()
		healthy := q.handOver.failing < q.handOver.slots || q.room.cells() == 0
		idle, open = healthy && q.hasIdleSlots(), q.phase == queueOpen
		q.mu.Unlock()
		if idle || !open {
			return idle, open
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-timer.C:
			return false, true
		case <-q.handOver.idle:
		}
	}
}

// awaitBacklog waits until there is a backlog. It returns false when ctx has ended or the queue is
// closed.
func (q *queue) awaitBacklog(ctx context.Context) bool {
	for {
		q.mu.Lock()
		more := q.backlog() > 0 || slices.ContainsFunc(q.runners, func(rn *runner) bool { return q.backlogOf(rn) > 0 })
		open := q.phase == queueOpen
		q.mu.Unlock()
		if more || !open {
			return open
		}
		select {
		case <-ctx.Done():
			return false
		case <-q.handOver.backlog:
		}
	}
}
