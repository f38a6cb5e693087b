package observers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
)

// Remaining counts unfinished work in the tables.
type Remaining struct {
	Notifications int64 // of observed and weak columns, except for parked observers alone
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
		s, err = c.Engine().Looker.Survey(ctx, func(row layout.Pending) { left.add(cov, row) })
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
func (r *Remaining) add(cov *coverage, row layout.Pending) {
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
// elsewhere have nothing left to do, and the same things can escape it. Some worker has to run for
// every observed column. If progress is not nil, it is called after each look at the tables, from
// the calling goroutine.
//
// It returns an error only if ctx ends (a *NotIdleError, which wraps the context's error) or the
// client is closed (percolator.ErrClosed). It outlasts failures of the store.
func WaitIdle(ctx context.Context, c *percolator.Client, progress func(Remaining)) error {
	pause := model.NewBackoff(idlePause, maxIdlePause)
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
