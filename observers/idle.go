package observers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// A sweep alone proves nothing if work moved behind it while it read. In this process, the queue
// tells whether anything began meanwhile. A worker in another process moves work by committing, so
// its write records have timestamps after one taken before the sweep. The sweep counts only if no
// table has such a record afterwards.

// WaitIdle waits until nothing is left to do: no notification in any observed table, no unfinished
// run on this worker, and no lock under which an observed cell may have committed without its
// notification. It also waits for notifications that other workers have in hand and for those of
// columns that this worker does not take, but not for parked cells. While transactions keep writing
// it does not return. Some worker has to run, not necessarily this one.
//
// Three things can escape it: a chain of weak notifications in another process whose observers
// write nothing, a transaction that commits later and then notifies a weak column, and what a
// client committed that did not know that its session had ended and its stream's header was
// deleted, until the next cycle of collection has found that stream.
//
// It returns an error only if ctx ends (it wraps the context's error and says what is left) or the
// client is closed (percolator.ErrClosed).
func (w *Worker) WaitIdle(ctx context.Context) error {
	pauses := backoff{idlePause, maxIdlePause}
	failures := 0
	for {
		started, err := w.queue.awaitIdle(ctx)
		if err != nil {
			return err
		}
		changed := w.queue.changed()
		left, moved, err := w.search(ctx)
		switch {
		case errors.Is(err, percolator.ErrClosed):
			return err
		case err == nil && !moved && left == remains{} && w.queue.quietSince(started):
			return nil
		case err == nil && !moved && left.elsewhere == 0:
			failures = 0 // what was left is in the queue by now
			continue
		}
		failures++
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("observers: not idle, %s: %w", left, ctx.Err()), err)
		case <-changed:
		case <-time.After(pauses.pause(failures)):
		}
	}
}

// search looks once at all unfinished work, and reports whether any was written meanwhile.
func (w *Worker) search(ctx context.Context) (left remains, moved bool, err error) {
	if w.engine.Meta.ByJournal() {
		left, s, err := w.surveyed(ctx)
		if err == nil && left == (remains{}) && s.Twice {
			left, _, err = w.surveyed(ctx)
		}
		if err == nil && left == (remains{}) {
			moved, err = w.engine.Looker.Moved(ctx, s)
		}
		return left, moved, err
	}
	before, err := w.engine.Clock.Next(ctx)
	if err == nil {
		left, err = w.sweepAll(ctx)
	}
	if err == nil && left == (remains{}) {
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

// remains counts the unfinished work that a sweep found.
type remains struct {
	here      int // taken into this worker's queue
	elsewhere int // for others to do, or under way
}

func (r remains) String() string {
	return fmt.Sprintf("%d cells queued here, %d notifications or locks for others", r.here, r.elsewhere)
}

// sweepAll goes once through all observed tables, queues dirty cells and resolves stranded locks.
func (w *Worker) sweepAll(ctx context.Context) (left remains, err error) {
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
func (w *Worker) count(ctx context.Context, rows []layout.Pending, asOf uint64, left *remains) {
	w.resolveStranded(ctx, rows)
	for _, row := range rows {
		states := w.statesOf(row)
		for _, n := range row.Notified {
			if !w.coverage.observed[Column{n.Cell.Table, n.Cell.Column}] || !w.observes(n.Cell) {
				continue // a column that the schema no longer observes
			}
			switch w.offerFound(ctx, n, &storedStates{asOf, states[n.Cell.Column]}, w.young(n, 0)) {
			case parked:
			case accepted, joined, known:
				left.here++
			default:
				// Another worker may have parked an observer that this one does not have.
				if !row.OnlyParked(n) {
					left.elsewhere++
				}
			}
		}
		for _, l := range row.Locks {
			if l.Observed {
				left.elsewhere++
			}
		}
	}
}
