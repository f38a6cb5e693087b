package gc

import (
	"github.com/gopercolator/percolator/internal/engine/retry"

	"bytes"
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// keepsPerLease is how often waiting calls keep at least: a renewal is then hardly late.
const keepsPerLease = 12

// LeaseCell is a cell of percolator_meta with a lease: it lets one process at a time do some work,
// and the next one continue where it was. Who works and how far it has come are one cell, which
// CheckAndMutateRow replaces on its former value. A process that finds it changed has lost the
// lease. It is for one goroutine.
type LeaseCell struct {
	Store       *store.Store
	Row, Column string
	TTL         time.Duration // of the lease, by the oracle's clock
	Stored      []byte        // what it holds as far as the process knows; nil: nothing

	extended time.Time // before the term was last extended
}

// Read reads the cell; nil: it does not exist.
func (c *LeaseCell) Read(ctx context.Context) ([]byte, error) {
	row, err := c.Store.ReadRow(ctx, model.MetaTable, c.Row, store.Cells(c.Column, 0))
	if cells := row.Of(layout.MetaFamily); err == nil && len(cells) > 0 {
		return cells[0].Value, nil
	}
	return nil, err
}

// Extend begins a new term, which counts from now on and not from the answer to Replace.
func (c *LeaseCell) Extend(ctx context.Context, clock func(context.Context) (tso.Timestamp, error)) (now, expires tso.Timestamp, err error) {
	c.extended = time.Now()
	now, err = clock(ctx)
	return now, now.Add(c.TTL), err
}

// Due reports whether a third of the term has passed, and the lease has to be renewed.
func (c *LeaseCell) Due() bool { return c.UntilDue() <= 0 }

// UntilDue is how long that takes.
func (c *LeaseCell) UntilDue() time.Duration { return c.TTL/3 - time.Since(c.extended) }

// Replace puts next, a JSON object, in place of what the cell held, together with what beside (nil:
// nothing) changes in its row; false: another process has replaced it. It makes attempts of a sixth
// of the lease, and of a quarter of the request lifetime, which bounds them all. As a renewal is
// due when a third of the lease has passed, two attempts without an answer leave time for a third.
func (c *LeaseCell) Replace(ctx context.Context, next []byte, beside func(*store.Mutation)) (bool, error) {
	next = store.Comparable(next)
	timeout := min(c.TTL/6, c.Store.Timing.RequestLifetime/4)
	swapped, err := c.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		mut := store.NewMutation(1)
		mut.Put(layout.MetaFamily, c.Column, store.MetaTimestamp, next)
		if beside != nil {
			beside(mut)
		}
		return c.Store.CompareAndMutate(ctx, c.Row, c.Column, c.Stored, mut)
	})
	if err == nil && !swapped { // an answer may have been lost
		var now []byte
		now, err = c.Read(ctx)
		swapped = bytes.Equal(now, next)
	}
	if err != nil || !swapped {
		return false, err
	}
	c.Stored = next
	return true, nil
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
