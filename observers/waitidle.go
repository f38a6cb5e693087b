package observers

import (
	"github.com/gopercolator/percolator/percolator/model"

	"github.com/gopercolator/percolator/internal/engine/retry"

	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Remaining counts unfinished work in the tables.
type Remaining struct {
	Notifications int64 // of observed and weak columns, except those that wait for parked observers alone
	Locks         int64 // on observed cells, which may hide a missing notification
}

// String describes r for people.
func (r Remaining) String() string {
	return fmt.Sprintf("left: notifications %d, locks on observed cells %d", r.Notifications, r.Locks)
}

// Remains counts unfinished work in all observed tables of the client's schema. It reads their
// notifications and locks, with one request for each 1,024 rows that have any, and changes nothing.
// Errors are the store's and the context's.
func Remains(ctx context.Context, c *percolator.Client) (Remaining, error) {
	left, _, err := remaining(ctx, c)
	return left, err
}

func remaining(ctx context.Context, c *percolator.Client) (left Remaining, s *settle.Survey, err error) {
	cov, err := cover(c.Schema(), nil, []Column{})
	if err != nil {
		return left, nil, err
	}
	if c.Engine().Meta.ByJournal() {
		s, err = c.Engine().Looker.Survey(ctx, func(row model.Pending) { left.add(cov, row) })
		if err != nil {
			return left, nil, fmt.Errorf("observers: what is left: %w", err)
		}
		return left, s, nil
	}
	for _, table := range cov.tables {
		for row, err := range c.Engine().Reads.ScanPending(store.InBackground(ctx), table, percolator.All()) {
			if err != nil {
				return left, nil, fmt.Errorf("observers: what is left of table %q: %w", table, err)
			}
			left.add(cov, row)
		}
	}
	return left, nil, nil
}

// add counts what is unfinished in a row.
func (r *Remaining) add(cov *coverage, row model.Pending) {
	for _, n := range row.Notified {
		if cov.observed[Column{row.Table, n.Cell.Column}] && !row.OnlyParked(n) {
			r.Notifications++
		}
	}
	for _, l := range row.Locks {
		if l.Observed {
			r.Locks++
		}
	}
}

// WaitIdle is [Worker.WaitIdle] for a process without a worker: it waits until the workers
// elsewhere have nothing left to do. Worker.WaitIdle says what can escape it. Some worker has to
// run for every observed column. If progress is not nil, it is called after each look at the
// tables, from the calling goroutine.
//
// It returns an error only if ctx ends (a *NotIdleError, which wraps the context's error) or the
// client is closed (percolator.ErrClosed). It outlasts failures of the store.
func WaitIdle(ctx context.Context, c *percolator.Client, progress func(Remaining)) error {
	pause := retry.NewBackoff(idlePause, maxIdlePause)
	var last NotIdleError
	for {
		left, moved, err := lookForWork(ctx, c)
		switch {
		case errors.Is(err, percolator.ErrClosed):
			return err
		case err == nil && left == (Remaining{}) && !moved:
			return nil
		case err != nil && ctx.Err() == nil:
			last.Failed = err
		case err == nil:
			last = NotIdleError{Left: left, Looked: time.Now()}
			if progress != nil {
				progress(left)
			}
		}
		if last.cause = pause.Wait(ctx); last.cause != nil {
			return &last
		}
	}
}

// NotIdleError is what WaitIdle returns when its context ends: what was left at the last look. It
// wraps the context's error and Failed.
type NotIdleError struct {
	Left   Remaining
	Looked time.Time // when that was; zero: it never saw all tables
	Failed error     // what a later look failed with; nil: none did

	cause error
}

func (e *NotIdleError) Error() string {
	text := "observers: not idle, " + e.Left.String()
	if e.Left.Notifications > 0 {
		text += " (does a worker run that takes their columns?)"
	}
	switch {
	case e.Failed != nil:
		text = "observers: what is left cannot be read: " + e.Failed.Error()
	case e.Looked.IsZero():
		text = "observers: what is left could not be read in time"
	}
	return text + ": " + e.cause.Error()
}

// Unwrap returns the context's error, and Failed if it is set.
func (e *NotIdleError) Unwrap() []error {
	if e.Failed == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.Failed}
}

// lookForWork counts what is left, and reports whether anything was written meanwhile.
func lookForWork(ctx context.Context, c *percolator.Client) (left Remaining, moved bool, err error) {
	before, err := c.Engine().Clock.Next(ctx)
	if err != nil {
		return left, false, err
	}
	left, s, err := remaining(ctx, c)
	if err == nil && left == (Remaining{}) && s != nil && s.Twice {
		left, _, err = remaining(ctx, c)
	}
	switch {
	case err != nil || left != (Remaining{}):
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
// Three things can escape it: a chain of weak notifications in another process whose observers
// write nothing, a transaction that commits later and then notifies a weak column, and what a
// client committed without knowing that its session had ended and its stream's header was deleted,
// until the next cycle of collection has found that stream.
//
// It returns an error only if ctx ends (it wraps the context's error and says what is left) or the
// client is closed (percolator.ErrClosed).
func (w *Worker) WaitIdle(ctx context.Context) error {
	pauses := backoff{idlePause, maxIdlePause}
	failures := 0
	for {
		started, err := w.queue.awaitEmpty(ctx)
		if err != nil {
			return err
		}
		changed := w.queue.changed()
		left, moved, err := w.search(ctx)
		switch {
		case errors.Is(err, percolator.ErrClosed):
			return err
		case err == nil && !moved && left == remains{} && w.queue.emptySince(started):
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
	elsewhere int // for others to do, or in flight
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
func (w *Worker) count(ctx context.Context, rows []model.Pending, asOf uint64, left *remains) {
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

// surveyed is a survey by the journal in place of a sweep over the tables: what it finds is queued
// here, or counted as left for others.
func (w *Worker) surveyed(ctx context.Context) (left remains, s *settle.Survey, err error) {
	if err := w.flush(ctx); err != nil {
		return left, nil, err
	}
	asOf := w.queue.asOf()
	s, err = w.engine.Looker.Survey(ctx, func(row model.Pending) { w.count(ctx, []model.Pending{row}, asOf, &left) })
	return left, s, err
}
