package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
)

// work loads batches until none are left, or the load is to stop.
func (l *load[T]) work(ctx context.Context) {
	for {
		b, ok := l.take()
		if !ok {
			return
		}
		failed, err := l.load(ctx, b)
		if err != nil {
			l.stop(err)
			return
		}
		for _, e := range b {
			l.room.Release(e.room)
		}
		last := b[len(b)-1]
		if n := l.order.finish(b[0].index, finished{items: int64(len(b)), failed: failed, token: last.Token}); n > 0 {
			l.ahead.Release(n)
		}
	}
}

// load commits the items. It divides a batch that fails until the failing items are alone, and
// returns how many of them Job.Failed has passed over.
func (l *load[T]) load(ctx context.Context, b []entry[T]) (failed int64, err error) {
	attempts, err := l.commit(ctx, b)
	var own *itemsError
	switch {
	case err == nil:
		l.committed(b)
		return 0, nil
	case !errors.As(err, &own):
		return 0, err
	case len(b) == 1:
		return 1, l.fail(b[0], attempts, own.err)
	}
	l.counts.retries.Add(1)
	for _, half := range [][]entry[T]{b[:len(b)/2], b[len(b)/2:]} {
		n, err := l.load(ctx, half)
		if err != nil {
			return 0, err
		}
		failed += n
	}
	return failed, nil
}

// itemsError is a failure of the items rather than of the store.
type itemsError struct{ err error }

func (e *itemsError) Error() string { return e.err.Error() }

// commit writes items in one transaction, and tries again during an outage. If the items themselves
// fail, it returns an *itemsError, for a single item after Config.MaxAttempts.
func (l *load[T]) commit(ctx context.Context, b []entry[T]) (attempts int, err error) {
	tries := 1 // of several items: dividing them finds the one that fails
	if len(b) == 1 {
		tries = l.cfg.MaxAttempts
	}
	store, items := newOutage(l.cfg.OutageTimeout, l.reading), newPause(l.reading)
	for {
		if err := l.client.Engine().Store.Pressure.GiveWay(ctx); err != nil {
			return attempts, err
		}
		runs, whose, err := l.attempt(ctx, b, tries-attempts)
		l.counts.retries.Add(int64(max(0, runs-1)))
		switch {
		case err == nil:
			return attempts + runs, nil
		case ctx.Err() != nil:
			return attempts, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case whose == faultFatal:
			return attempts, err
		case whose == faultStore: // not an attempt
			if store.since.IsZero() {
				warn(l.cfg.Logger, "loader: a transaction failed, and is tried again", err, "load", l.cfg.Name)
			}
			err = store.wait(ctx, err)
		default:
			if attempts += runs; whose == faultPoison || attempts >= tries {
				return attempts, &itemsError{err}
			}
			err = items.wait(ctx, err)
		}
		if err != nil {
			return attempts, err
		}
		l.counts.retries.Add(1)
	}
}

// attempt runs a transaction, repeats it after conflicts, and classifies its error.
func (l *load[T]) attempt(ctx context.Context, b []entry[T], tries int) (runs int, whose fault, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	values := valuesOf(b)
	var own error
	_, err = l.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		runs++
		own = l.job.Write(ctx, tx, values)
		return own
	}, append(slices.Clip(l.cfg.TxnOptions), percolator.MaxAttempts(tries))...)
	return runs, faultOf(err, own != nil), err
}

func valuesOf[T any](b []entry[T]) []T {
	return ordered.Map(b, func(e entry[T]) T { return e.Value })
}

// committed counts the items and tells the job.
func (l *load[T]) committed(b []entry[T]) {
	bytes := int64(0)
	for _, e := range b {
		bytes += e.Bytes
	}
	l.counts.items.Add(int64(len(b)))
	l.counts.bytes.Add(bytes)
	if l.job.Committed != nil {
		l.job.Committed(valuesOf(b))
	}
}

// fail reports an item that could not be loaded. The load goes on if nil is returned.
func (l *load[T]) fail(e entry[T], attempts int, err error) error {
	ie := &ItemError{Index: e.index, Err: err}
	if l.job.Failed == nil {
		return ie
	}
	l.failing.Lock()
	defer l.failing.Unlock()
	if err := l.job.Failed(Failure[T]{Index: e.index, Item: e.Value, Attempts: attempts, Err: err}); err != nil {
		return err
	}
	l.counts.passedOver(ie)
	warn(l.cfg.Logger, "loader: an item was passed over", err, "load", l.cfg.Name, "item", e.index, "attempts", attempts)
	return nil
}

// passedOver counts a failed item and remembers the first of them.
func (c *counts) passedOver(e *ItemError) {
	c.failed.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) < remembered {
		c.failures = append(c.failures, e)
	}
}
