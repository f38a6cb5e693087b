package observers

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A worker learns of most notifications without reading a table: its own client dispatches what it
// has written, and the oracle passes on what other processes' clients have written. What both miss
// the journal finds (journal.go), or the scan (scan.go).

// dispatch queues a notification that this process's own client has just written, so that a chain
// of observers in one worker does not wait until the journal or a scan leads to it. It never
// blocks. Dropping what does not fit is safe: the notification is in the table, and the client
// hints at it to other processes.
func (w *Worker) dispatch(n model.Notification) (taken bool) {
	if w.pass(n) {
		return true
	}
	switch v, _ := w.enqueue(n, arrival{from: fromClient}); v {
	case accepted, joined:
		w.counters.dispatched.Add(1)
	case full, crowded:
		w.counters.dropped.Add(1)
		return false
	case parked: // it was retried: the hint leads a worker, also this one, to look
		return false
	case refused, foreign:
		return false
	}
	return true
}

// column is that of a cell; nil: this worker does not take it.
func (w *Worker) column(c model.Cell) *column { return w.coverage.taken[Column{c.Table, c.Column}] }

func (w *Worker) takes(c model.Cell) bool { return w.column(c) != nil }

// enqueue queues a notification unless its column is foreign to this worker, or was dropped.
func (w *Worker) enqueue(n model.Notification, a arrival) (v verdict, upTo tso.Timestamp) {
	col := w.column(n.Cell)
	if col == nil || w.dropped(col) {
		return foreign, 0
	}
	return w.queue.add(col, n.Cell.Row, n.Timestamp, a)
}

const (
	hintsAtOnce = 256              // the most that one request may return
	hintsWait   = 20 * time.Second // in one request
	hintsRest   = 5 * time.Second  // after a request that failed, at random up to twice as long
	hintsBusy   = time.Second      // between requests of a worker that has enough to do

	// hintsFirst is the age up to which a hint is of the notification's writer, and not of one who
	// has looked again.
	hintsFirst = 4 * time.Second

	lookTimeout = 5 * time.Second // at a parked cell that another process hints at
)

// listen takes the notifications of some columns that the oracle passes on from other processes'
// clients, so that an observer runs as soon as the write has committed and not when a scan comes
// by. While there is room it waits for them, and for the backlog of other workers; it asks for no
// more than can start at once and leaves the rest to other workers. While there is none it only
// asks now and then, so that its own work does not keep it from others' hints. If the oracle passes
// no hints on, the scan has to find everything, or the adopter in the journal.
func (w *Worker) listen(ctx context.Context, columns []percolator.Cell) {
	looks := newLooks()
	defer func() { _ = looks.Wait() }()
	var q dispatch.Question
	for w.queue.awaitRoom(ctx) {
		if q.Columns = w.hearable(columns); len(q.Columns) == 0 {
			if retry.Sleep(ctx, hintsRest+rand.N(hintsRest)) != nil {
				return
			}
			continue
		}
		idle, open := w.queue.awaitIdleSlots(ctx, hintsBusy)
		switch {
		case !open:
			return
		case idle:
			q.Most, q.Wait, q.HandOvers = min(w.cfg.Concurrency, hintsAtOnce), hintsWait, true
		default:
			q.Most, q.Wait, q.HandOvers = hintsAtOnce, 0, false
		}
		if !w.hear(ctx, q, looks) {
			return
		}
	}
}

// listenOwned takes the notifications that other workers pass on because this one runs for their
// cells.
func (w *Worker) listenOwned(ctx context.Context) {
	looks := newLooks()
	defer func() { _ = looks.Wait() }()
	for w.queue.awaitRoom(ctx) && w.hear(ctx, dispatch.Question{Worker: w.name, Most: hintsAtOnce, Wait: hintsWait}, looks) {
	}
}

// newLooks makes looks at parked cells, none of which keeps other hints. What is beyond the limit
// the journal leads to.
func newLooks() *errgroup.Group {
	looks := new(errgroup.Group)
	looks.SetLimit(hintsAtOnce)
	return looks
}

// hear asks once, and pauses if that fails. false: it is useless to ask again.
func (w *Worker) hear(ctx context.Context, q dispatch.Question, looks *errgroup.Group) bool {
	heard, err := w.engine.Dispatch.AwaitNotifications(ctx, q)
	switch {
	case errors.Is(err, tso.ErrUnsupported):
		w.unreachable.Store(true)
		return false
	case ctx.Err() != nil, errors.Is(err, percolator.ErrClosed):
		return false
	case err != nil:
		w.log.Debug("observers: hints from other processes do not arrive", "err", err)
		if retry.Sleep(ctx, hintsRest+rand.N(hintsRest)) != nil {
			return false
		}
	}
	for _, s := range heard.HandedOver {
		w.received(s)
	}
	for _, n := range heard.Notified {
		v := foreign
		switch {
		case q.Worker != "": // two that see different owners do not pass it to and fro
			v = w.hinted(n, fromSearch)
		case w.overdue(n) || !w.pass(n):
			v = w.hinted(n, w.hintedBy(n))
		}
		if v == parked {
			looks.TryGo(func() error { w.lookAtParked(ctx, n); return nil })
		}
	}
	return true
}

// lookAtParked looks at a cell that this worker remembers as parked and another process hints at:
// somebody may have retried it. Looks that are made at the same time share a request.
func (w *Worker) lookAtParked(ctx context.Context, hinted model.Notification) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	asOf := w.queue.asOf()
	row, err := w.engine.Reads.PendingOf(ctx, hinted.Cell)
	if err != nil {
		w.log.Debug("observers: the worker could not look at a parked cell that another process hints at", "table", hinted.Cell.Table, "row", hinted.Cell.Row, "err", err)
		return // the journal leads to it
	}
	for _, n := range row.Notified {
		if n.Cell == hinted.Cell {
			w.enqueueFound(ctx, n, &storedStates{asOf, w.statesOf(row)[n.Cell.Column]}, fromSearch)
		}
	}
}

// heard are the columns of which this worker takes hints.
func (w *Worker) heard() (columns []percolator.Cell) {
	for c := range w.coverage.taken {
		columns = append(columns, percolator.Cell{Table: c.Table, Column: c.Name})
	}
	return columns
}

// hearable are those of some columns for whose cells there is room: a hint that this worker takes
// and has no room for would be lost to others.
func (w *Worker) hearable(columns []percolator.Cell) []percolator.Cell {
	if w.queue.hasRoom(waiting) {
		return columns
	}
	return slices.DeleteFunc(slices.Clone(columns), func(c percolator.Cell) bool { return w.column(c).class(arrival{from: fromSearch}) == waiting })
}

// hinted queues what another process has notified. If it does not fit, it is found later. It
// counts as found: because of a look or a scan, another worker may handle it as well.
func (w *Worker) hinted(n model.Notification, from source) verdict {
	v, _ := w.enqueue(n, arrival{from: from})
	if v == accepted || v == joined {
		w.counters.hinted.Add(1)
	}
	return v
}

// hintedBy is the source of a hint. One that comes of a look is contested while another worker may
// have heard the writer's own.
func (w *Worker) hintedBy(n model.Notification) source {
	if w.age(n.Timestamp) < hintsFirst {
		return fromSearch
	}
	return w.metBy(n, 0)
}

// overdue reports whether the owner of a cell has had its time.
func (w *Worker) overdue(n model.Notification) bool {
	return w.cfg.Grace >= 0 && w.metBy(n, 0) == fromSearch
}
