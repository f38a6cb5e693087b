package observers

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// WaitIdle is [Worker.WaitIdle] for a process without a worker: it waits until the workers
// elsewhere have nothing left to do. Worker.WaitIdle says what can escape it. Some worker has to
// run for every observed column. If progress is not nil, it is called after each look at the
// tables, from the calling goroutine.
//
// It returns an error only if ctx ends (a *NotIdleError, which wraps the context's error and names
// some cells) or the client is closed (percolator.ErrClosed). It outlasts failures of the store.
func WaitIdle(ctx context.Context, c *percolator.Client, progress func(Remaining)) error {
	caller := ctx
	ctx, stop := c.Engine().UntilLoop(ctx)
	defer stop()
	pause := retry.NewBackoff(idlePause, maxIdlePause)
	var last NotIdleError
	for {
		left, moved, err := lookForWork(ctx, c)
		switch {
		case errors.Is(err, percolator.ErrClosed):
			return err
		case err == nil && left.none() && !moved:
			return nil
		case err != nil && ctx.Err() == nil:
			last.Failed = err
		case err == nil:
			last = left.notIdle()
			if progress != nil {
				progress(left.Remaining)
			}
		}
		if pause.Wait(ctx) != nil {
			last.cause = endOf(caller, ctx)
			return &last
		}
	}
}

// endOf is why waiting has ended: its caller's context has, or the context made of it.
func endOf(caller, ctx context.Context) error {
	return cmp.Or(caller.Err(), context.Cause(ctx))
}

// lookForWork counts what is left, and reports whether anything was written meanwhile.
func lookForWork(ctx context.Context, c *percolator.Client) (left tally, moved bool, err error) {
	before, err := c.Engine().Clock.Next(ctx)
	if err != nil {
		return left, false, err
	}
	left, s, err := remaining(ctx, c)
	if err == nil && left.none() && s != nil && s.Twice {
		left, _, err = remaining(ctx, c)
	}
	switch {
	case err != nil || !left.none():
	case s != nil:
		moved, err = c.Engine().Looker.Moved(ctx, s)
	default:
		moved, err = movedSince(ctx, c.Engine(), before)
	}
	return left, moved, err
}

// A sweep alone proves nothing if work moved behind it while it read. In this process, the queue
// tells whether anything started meanwhile. A worker in another process moves work by committing,
// so its write records have timestamps after one taken before the sweep. The sweep counts only if
// no table has such a record afterwards.

// WaitIdle waits until nothing is left to do: no notification in any observed table, no unfinished
// run on this worker, and no lock under which an observed cell may have committed without its
// notification. It also waits for notifications that other workers have in hand and for those of
// columns that this worker does not take, but not for parked cells. While transactions keep writing
// it does not return. Some worker has to run, not necessarily this one.
//
// WaitIdle can miss three things:
//
//   - a chain of weak notifications, in another process, whose observers write nothing;
//   - the weak notification of a transaction that has yet to commit;
//   - what a client committed after its session had ended, before it learned so, if its journal had
//     been removed by then; the next cycle of collection finds it.
//
// It returns an error only if ctx ends (a *NotIdleError, which wraps the context's error and names
// some cells) or the client is closed (percolator.ErrClosed).
func (w *Worker) WaitIdle(ctx context.Context) error {
	caller := ctx
	ctx, stop := w.engine.UntilLoop(ctx)
	defer stop()
	pauses := backoff{idlePause, maxIdlePause}
	failures := 0
	var last NotIdleError
	for {
		started, err := w.queue.awaitEmpty(ctx)
		if err != nil {
			return w.notIdle(last, endOf(caller, ctx))
		}
		changed := w.queue.changed()
		left, moved, err := w.search(ctx)
		switch {
		case errors.Is(err, percolator.ErrClosed):
			return err
		case err != nil && ctx.Err() == nil:
			last.Failed = err
		case err == nil && !moved && left.none() && w.queue.emptySince(started):
			return nil
		case err == nil:
			last = left.notIdle()
		}
		if err == nil && !moved && !left.forOthers() {
			failures = 0 // what was left is in the queue by now
			continue
		}
		failures++
		select {
		case <-ctx.Done():
			return w.notIdle(last, endOf(caller, ctx))
		case <-changed:
		case <-time.After(pauses.pause(failures)):
		}
	}
}

// search looks once at all unfinished work, and reports whether any was written meanwhile.
func (w *Worker) search(ctx context.Context) (left tally, moved bool, err error) {
	if w.engine.Meta.ByJournal() {
		left, s, err := w.surveyed(ctx)
		if err == nil && left.none() && s.Twice {
			left, _, err = w.surveyed(ctx)
		}
		if err == nil && left.none() {
			moved, err = w.engine.Looker.Moved(ctx, s)
		}
		return left, moved, err
	}
	before, err := w.engine.Clock.Next(ctx)
	if err == nil {
		left, err = w.sweepAll(ctx)
	}
	if err == nil && left.none() {
		moved, err = movedSince(ctx, w.engine, before)
	}
	return left, moved, err
}

// movedSince reports whether any table has a write that committed after the timestamp before.
func movedSince(ctx context.Context, e *engine.Engine, before tso.Timestamp) (bool, error) {
	for _, t := range e.Meta.Catalog.Load().Schema.Tables {
		written, err := e.Reads.WrittenSince(store.InBackground(ctx), t.Name, before)
		if written || err != nil {
			return written, err
		}
	}
	return false, nil
}

const (
	idlePause    = 10 * time.Millisecond
	maxIdlePause = time.Second
)

// sweepAll goes once through all observed tables, queues dirty cells and resolves stranded locks.
func (w *Worker) sweepAll(ctx context.Context) (left tally, err error) {
	// Phase two of this client's commits writes notifications.
	if err := w.flush(ctx); err != nil {
		return left, err
	}
	for _, table := range w.coverage.tables {
		if !w.hasTable(table) {
			continue
		}
		asOf := w.queue.asOf()
		for page, err := range w.engine.Reads.PendingPages(store.InBackground(ctx), table, percolator.All()) {
			if err != nil {
				return left, err
			}
			w.count(ctx, page, asOf, &left)
		}
	}
	return left, nil
}

func (w *Worker) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return w.engine.Bulk.Flush(ctx)
}

// count adds the unfinished work in rows, which were read after the queue was at asOf, to
// left.
func (w *Worker) count(ctx context.Context, rows []model.Pending, asOf uint64, left *tally) {
	w.resolveStranded(ctx, rows)
	for _, row := range rows {
		states := w.statesOf(row)
		for _, n := range row.Notified {
			if !w.coverage.observed[Column{n.Cell.Table, n.Cell.Column}] || !w.observes(n.Cell) {
				continue // a column that the schema no longer observes
			}
			switch w.enqueueFound(ctx, n, &storedStates{asOf, states[n.Cell.Column]}, w.metBy(n, 0)) {
			case parked:
			case accepted, joined, known:
				left.here++
				left.add(n.Cell)
			default:
				// Another worker may have parked an observer that this one does not have.
				if !row.OnlyParked(n) {
					left.add(n.Cell)
				}
			}
		}
		for _, l := range row.Locks {
			if l.Observed {
				left.Locks++
			}
		}
	}
}

// surveyed is a survey by the journal in place of a sweep over the tables: what it finds is queued
// here, or counted as left for others.
func (w *Worker) surveyed(ctx context.Context) (left tally, s *settle.Survey, err error) {
	if err := w.flush(ctx); err != nil {
		return left, nil, err
	}
	asOf := w.queue.asOf()
	s, err = w.engine.Looker.Survey(ctx, func(row model.Pending) { w.count(ctx, []model.Pending{row}, asOf, &left) })
	return left, s, err
}
