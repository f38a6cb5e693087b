package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/internal/position"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// keepsPerLease is how often waiting calls keep at least: a renewal is then hardly late.
const keepsPerLease = 12

// LeaseCell is a position with a lease, in percolator_meta: it lets one process at a time do some
// work, and the next one continue where it was. Who works and how far it has come are one cell. A
// process that finds it changed has lost the lease. It is for one goroutine.
type LeaseCell[T any] struct {
	position.Position[T] // without numbers: no two terms have equal times

	at       store.MetaCell
	ttl      time.Duration // of the lease, by the oracle's clock
	extended time.Time     // before the term was last extended
}

// NewLeaseCell is a cell that holds stored (nil: nothing), as far as is known.
func NewLeaseCell[T any](at store.MetaCell, ttl time.Duration, stored []byte, decode func([]byte) (T, error)) LeaseCell[T] {
	return LeaseCell[T]{Position: position.Position[T]{Cell: at, Decode: decode, Stored: stored}, at: at, ttl: ttl}
}

// Extend begins a new term, which counts from now on and not from the answer to Store.
func (c *LeaseCell[T]) Extend(ctx context.Context, clock func(context.Context) (tso.Timestamp, error)) (now, expires tso.Timestamp, err error) {
	c.extended = time.Now()
	now, err = clock(ctx)
	return now, now.Add(c.ttl), err
}

// Due reports whether a third of the term has passed, and the lease has to be renewed.
func (c *LeaseCell[T]) Due() bool { return c.UntilDue() <= 0 }

// UntilDue is how long that takes.
func (c *LeaseCell[T]) UntilDue() time.Duration { return c.ttl/3 - time.Since(c.extended) }

// Store puts next, a JSON object, in place of what the cell held, together with what beside (nil:
// nothing) changes in its row; false: another process has replaced it, by now.
func (c *LeaseCell[T]) Store(ctx context.Context, next []byte, beside func(*store.Mutation)) (stored bool, now T, err error) {
	c.Cell = leasedCell{c.at, c.ttl / 6, beside}
	stored, now, _, err = c.Replace(ctx, store.Comparable(next))
	return stored, now, err
}

// leasedCell is a cell that is replaced within the term of a lease. It makes attempts of a sixth of
// the lease, and of a quarter of the request lifetime, which bounds them all. As a renewal is due
// when a third of the lease has passed, two attempts without an answer leave time for a third.
type leasedCell struct {
	store.MetaCell
	attempt time.Duration
	beside  func(*store.Mutation)
}

// Replace implements position.Cell.
func (c leasedCell) Replace(ctx context.Context, former, next []byte) (bool, error) {
	timeout := min(c.attempt, c.Store.Timing.RequestLifetime/4)
	return c.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		mut := store.NewMutation(1)
		mut.Put(layout.MetaFamily, c.Column, store.MetaTimestamp, next)
		if c.beside != nil {
			c.beside(mut)
		}
		return c.Store.CompareAndMutate(ctx, c.Row, c.Column, former, mut)
	})
}

// LeasedState is a state that is kept together with its lease: the successor of a dead process
// continues at what was saved last.
type LeasedState[T any] struct {
	What        string // that holds it: a collector
	Row, Column string // of percolator_meta
	Encode      func(T) []byte
	Decode      func([]byte) (T, error)
	Lease       func(*T) (holder *string, updated, expires *tso.Timestamp)
}

func (l LeasedState[T]) cell(e *engine.Engine, ttl time.Duration, stored []byte) LeaseCell[T] {
	return NewLeaseCell(store.MetaCell{Store: e.Store, Row: l.Row, Column: l.Column}, ttl, stored, l.Decode)
}

// Read reads the state, whoever holds it.
func (l LeasedState[T]) Read(ctx context.Context, e *engine.Engine) (T, error) {
	cell := l.cell(e, 0, nil)
	st, _, err := cell.Read(ctx)
	return st, err
}

// Acquire takes the lease if it is free, and reads the state into st. ErrLeased: another process
// has it, and st is that one's state.
func (l LeasedState[T]) Acquire(ctx context.Context, e *engine.Engine, ttl time.Duration, st *T) (h Held[T], err error) {
	now, err := e.Clock.Next(ctx)
	if err != nil {
		return h, err
	}
	h = l.held(e, ttl, st, nil)
	*st, h.Stored, err = h.Read(ctx)
	if err != nil {
		return h, err
	}
	if holder, _, expires := l.Lease(st); *holder != "" && *expires > now {
		return h, l.taken(*st)
	}
	if err = h.Save(ctx, nil); errors.Is(err, model.ErrLeased) { // in between
		*st, _, _ = h.Read(ctx)
	}
	return h, err
}

func (l LeasedState[T]) held(e *engine.Engine, ttl time.Duration, st *T, stored []byte) Held[T] {
	return Held[T]{LeaseCell: l.cell(e, ttl, stored), of: l, e: e, name: uuid.NewString(), state: st}
}

func (l LeasedState[T]) taken(now T) error {
	holder, _, expires := l.Lease(&now)
	return fmt.Errorf("percolator: %w: %s %s, until %v", model.ErrLeased, l.What, *holder, expires.Time())
}

// Held is a state whose lease this process has.
type Held[T any] struct {
	LeaseCell[T]

	of    LeasedState[T]
	e     *engine.Engine
	name  string // in the lease; a new one for each time that it is taken
	state *T
}

// Save writes the state and extends the lease, together with what beside (nil: nothing) changes in
// the row.
func (h *Held[T]) Save(ctx context.Context, beside func(*store.Mutation)) error {
	now, until, err := h.Extend(ctx, h.e.Clock.Next)
	if err != nil {
		return err
	}
	holder, updated, expires := h.of.Lease(h.state)
	*holder, *updated, *expires = h.name, now, until
	return h.write(ctx, beside)
}

func (h *Held[T]) write(ctx context.Context, beside func(*store.Mutation)) error {
	stored, now, err := h.Store(ctx, h.of.Encode(*h.state), beside)
	if err != nil || stored {
		return err
	}
	return h.of.taken(now)
}

// Keep saves the state when a third of the lease has passed.
func (h *Held[T]) Keep(ctx context.Context) error {
	if !h.Due() {
		return nil
	}
	return h.Save(ctx, nil)
}

// Release gives the lease up. If that fails it expires.
func (h *Held[T]) Release(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), meta.ReleaseTimeout)
	defer cancel()
	holder, _, expires := h.of.Lease(h.state)
	*holder, *expires = "", 0
	if err := h.write(ctx, nil); err != nil {
		log.Debug("the lease of a "+h.of.What+" was not given up, and expires", "err", err)
	}
}

// WhileLeased does some work, and calls keep meanwhile, as often as a lease needs it, and at the
// end. An error of keep ends the work.
func WhileLeased(ctx context.Context, ttl time.Duration, keep, work func(context.Context) error) error {
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(working) }()
	tick := time.NewTicker(ttl / keepsPerLease)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err == nil {
				err = keep(ctx)
			}
			return err
		case <-tick.C:
			if err := keep(ctx); err != nil {
				cancel()
				<-done
				return err
			}
		}
	}
}

// WaitLeased is WhileLeased for work that is to wait; it calls keep also where there is nothing to
// wait for.
func WaitLeased(ctx context.Context, ttl, whole time.Duration, keep func(context.Context) error) error {
	if whole <= 0 {
		return keep(ctx)
	}
	return WhileLeased(ctx, ttl, keep, func(ctx context.Context) error { return retry.Sleep(ctx, whole) })
}
