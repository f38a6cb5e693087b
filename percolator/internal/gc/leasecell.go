package gc

import (
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/position"

	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
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
