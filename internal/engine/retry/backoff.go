// Package retry holds what decides when something is tried again: pauses, what is transient, and
// which errors leave open whether a request was applied.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gopercolator/percolator/percolator/model"
)

// Backoff waits with jitter around a doubling interval, so that contenders that were woken together
// separate. It is not safe for concurrent use.
type Backoff struct{ interval backoff.ExponentialBackOff }

// NewBackoff starts at the interval first and doubles it up to limit; each pause is between half of
// the interval and one and a half.
func NewBackoff(first, limit time.Duration) *Backoff {
	return &Backoff{backoff.ExponentialBackOff{InitialInterval: first, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: limit}}
}

// Wait pauses, or returns the context's error as soon as it ends.
func (b *Backoff) Wait(ctx context.Context) error {
	return pause(ctx, b.interval.NextBackOff())
}

// WaitAtLeast is Wait with pauses of at least d, give or take a half at random.
func (b *Backoff) WaitAtLeast(ctx context.Context, d time.Duration) error {
	return pause(ctx, max(b.interval.NextBackOff(), d/2+rand.N(d+1)))
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TransientFailures is how often in a row something may fail before it is given up. Conflicts do
// not count: others' progress causes them.
const TransientFailures = 8

// Sleep pauses for d, or returns the context's error, wrapped, as soon as it ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if err := pause(ctx, d); err != nil {
		return fmt.Errorf("percolator: %w", err)
	}
	return nil
}

// Transient decides how often something is tried again. It is not safe for concurrent use.
type Transient struct {
	pause  *Backoff
	failed int
}

// NewTransient begins a series of attempts.
func NewTransient() *Transient {
	return &Transient{pause: NewBackoff(2*time.Millisecond, 2*time.Second)}
}

// After pauses if another attempt may succeed where one failed with err, and returns the error
// otherwise.
func (t *Transient) After(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return WithContext(ctx, err)
	}
	if !errors.Is(err, model.ErrConflict) {
		if t.failed++; t.failed == TransientFailures || !isTransient(err) {
			return err
		}
	}
	if perr := t.pause.Wait(ctx); perr != nil {
		return fmt.Errorf("%w: %w", err, perr)
	}
	return nil
}

// Transiently repeats f as long as Transient says so.
func Transiently(ctx context.Context, f func(context.Context) error) error {
	for again := NewTransient(); ; {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if err = again.After(ctx, err); err != nil {
			return err
		}
	}
}

// isTransient tells a momentary state of the store or the oracle from an error that the caller has
// to mend.
func isTransient(err error) bool {
	definite := []error{model.ErrClosed, model.ErrUnique, model.ErrCorrupt, model.ErrTooLarge, model.ErrSchemaMismatch, model.ErrInvalidArgument}
	if slices.ContainsFunc(definite, func(target error) bool { return errors.Is(err, target) }) {
		return false
	}
	return Ambiguous(err) || errors.Is(err, model.ErrOutcomeUnknown) || errors.Is(err, model.ErrSnapshotTooOld)
}
