package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Update runs f in a transaction and commits it; after a conflict it runs f again in a new
// transaction, with jittered backoff, until ctx ends or MaxAttempts is reached. It returns the
// commit timestamp. If f returns an error, Update rolls back and returns that error as it is (an
// ErrConflict from f counts as a conflict). It never retries ErrOutcomeUnknown.
func (c *Committer) Update(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o TxnOptions) (tso.Timestamp, error) {
	ctx, span := c.Store.Trace.Start(ctx, "percolator.update", "")
	ended := telemetry.ErrPanicked // of f, whose panic goes on
	defer func() { span.End(ended) }()
	ts, attempts, err := c.update(ctx, f, o)
	if errors.Is(err, model.ErrConflict) && attempts > 1 {
		err = fmt.Errorf("%w (after %d attempts)", err, attempts)
	}
	ended = err
	c.Store.Metrics.Attempted(ctx, attempts, err)
	span.Count("percolator.attempts", attempts)
	return ts, err
}

func (c *Committer) update(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o TxnOptions) (ts tso.Timestamp, attempts int, err error) {
	pause := retry.NewBackoff(2*time.Millisecond, time.Second)
	var cells []model.Cell // on which it has conflicted
	for ways := 0; ; {
		o.retry = attempts > 0
		cells = contested(cells, err)
		within, held, end, berr := c.admit(ctx, cells, o.retry)
		switch {
		case berr != nil && err != nil:
			return 0, attempts, fmt.Errorf("%w: %w", err, berr)
		case berr != nil:
			return 0, attempts, berr
		}
		attempts++
		o.queued = held != nil
		if o.turns = held; attempts == o.MaxAttempts || ways == mostWays {
			o.turns = nil
		}
		started := time.Now()
		ts, err = c.tracedAttempt(within, f, o, attempts, end)
		if err == nil || !errors.Is(err, model.ErrConflict) || errors.Is(err, model.ErrOutcomeUnknown) || attempts == o.MaxAttempts {
			return ts, attempts, err
		}
		if held != nil && held.gaveWay.Load() {
			ways++
			continue
		}
		if perr := pause.WaitAtLeast(ctx, c.leastPause(time.Since(started))); perr != nil {
			return 0, attempts, fmt.Errorf("%w: %w", err, perr)
		}
	}
}

// leastPause is the shortest pause, about, after an attempt that took so long. Where requests take
// much longer than a pause, two clients fall into step: each begins again when the lock of the
// other goes, before all others that look at it now and then.
func (c *Committer) leastPause(attempt time.Duration) time.Duration {
	return min(attempt, c.Store.Conditional.Recent()) / 2
}

// updating marks the contexts of functions that run within an Update of a client.
type updating struct{ c *Committer }

// admit waits until an attempt may begin, after conflicts on cells, in the context that it returns.
func (c *Committer) admit(ctx context.Context, cells []model.Cell, again bool) (within context.Context, held *turns, end func(time.Duration, error), err error) {
	if err := retry.CheckContext(ctx); err != nil {
		return nil, nil, nil, err
	}
	if ctx.Value(updating{c}) != nil { // the Update around it holds what this one would wait for
		return ctx, nil, func(time.Duration, error) {}, nil
	}
	held, end, err = c.contention.begin(ctx, service{c.Store.Background.Done(), &c.Store.Pressure}, cells, again)
	return context.WithValue(ctx, updating{c}, true), held, end, err
}

// tracedAttempt makes the attempt n, and tells end how it ended.
func (c *Committer) tracedAttempt(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o TxnOptions, n int, end func(time.Duration, error)) (ts tso.Timestamp, err error) {
	ended := telemetry.ErrPanicked
	var spent time.Duration
	defer func() { end(spent, ended) }()
	ctx, span := c.Store.Trace.Start(ctx, "percolator.attempt", "")
	span.Count("percolator.attempt", n)
	defer func() { span.End(ended) }()
	ts, spent, err = c.attempt(ctx, f, o)
	ended = err
	return ts, err
}

// attempt returns how long Begin and Commit have taken; 0: it has not come to Commit.
func (c *Committer) attempt(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o TxnOptions) (ts tso.Timestamp, spent time.Duration, err error) {
	var tx *Txn
	begun := c.contention.during(o.queued, func() { tx, err = c.Begin(ctx, o) })
	if err != nil {
		return 0, 0, err
	}
	defer tx.Rollback(ctx)
	tx.Lend()
	if err := f(ctx, tx); err != nil {
		return 0, 0, err
	}
	committed := c.contention.during(o.queued, func() { ts, err = tx.Commit(ctx) })
	return ts, begun + committed, err
}
