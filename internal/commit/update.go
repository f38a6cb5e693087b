package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/internal/telemetry"
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
	ended = err
	c.Store.Metrics.Attempted(ctx, attempts, err)
	span.Count("percolator.attempts", attempts)
	return ts, err
}

func (c *Committer) update(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o TxnOptions) (ts tso.Timestamp, attempt int, err error) {
	pause := retry.New(2*time.Millisecond, time.Second)
	var cells []model.Cell // on which it has conflicted
	for attempt = 1; ; attempt++ {
		o.retry = attempt > 1
		cells = contested(cells, err)
		ts, err = c.admittedAttempt(ctx, f, o, attempt, cells, err)
		if err == nil || !errors.Is(err, model.ErrConflict) || errors.Is(err, model.ErrOutcomeUnknown) || attempt == o.MaxAttempts {
			return ts, attempt, err
		}
		if errors.Is(err, errNotItsTurn) {
			continue
		}
		if perr := pause.Wait(ctx); perr != nil {
			return 0, attempt, fmt.Errorf("%w: %w", err, perr)
		}
	}
}

// updating marks the contexts of functions that run within an Update of a client.
type updating struct{ c *Committer }

// admittedAttempt waits until an attempt may begin, after conflicts on cells and one that ended in
// last, and makes it.
func (c *Committer) admittedAttempt(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o TxnOptions, n int, cells []model.Cell, last error) (ts tso.Timestamp, err error) {
	if err := model.CheckContext(ctx); err != nil {
		return 0, err
	}
	if ctx.Value(updating{c}) != nil { // the Update around it holds what this one would wait for
		return c.tracedAttempt(ctx, f, o, n)
	}
	held, end, err := c.contention.begin(ctx, cells, n > 1)
	switch {
	case err != nil && last != nil:
		return 0, fmt.Errorf("%w: %w", last, err)
	case err != nil:
		return 0, err
	}
	ended := telemetry.ErrPanicked
	defer func() { end(ended) }()
	if n != o.MaxAttempts { // the last one tries all the same
		o.turns = held
	}
	ts, err = c.tracedAttempt(context.WithValue(ctx, updating{c}, true), f, o, n)
	ended = err
	return ts, err
}

func (c *Committer) tracedAttempt(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o TxnOptions, n int) (ts tso.Timestamp, err error) {
	ctx, span := c.Store.Trace.Start(ctx, "percolator.attempt", "")
	span.Count("percolator.attempt", n)
	ended := telemetry.ErrPanicked
	defer func() { span.End(ended) }()
	ts, err = c.attempt(ctx, f, o)
	ended = err
	return ts, err
}

func (c *Committer) attempt(ctx context.Context, f func(ctx context.Context, tx *Txn) error, o TxnOptions) (tso.Timestamp, error) {
	tx, err := c.Begin(ctx, o)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx)
	if err := tx.Lend(func() error { return f(ctx, tx) }); err != nil {
		return 0, err
	}
	return tx.Commit(ctx)
}
