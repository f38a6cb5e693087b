// Package retry decides when something is tried again: after which errors, and after which pause. It
// sits above model and knows no store.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/internal/model"
)

// Backoff waits with full jitter around a doubling interval, so that contenders that were woken
// together separate. It is not safe for concurrent use.
type Backoff struct{ next, limit time.Duration }

// New starts at the interval first and doubles it up to limit.
func New(first, limit time.Duration) *Backoff { return &Backoff{first, limit} }

// Wait pauses, or returns the context's error as soon as it ends.
func (b *Backoff) Wait(ctx context.Context) error {
	d := b.next/2 + rand.N(b.next)
	b.next = min(2*b.next, b.limit)
	return pause(ctx, d)
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

// A batch that fails with a transient error is tried again: for ever after conflicts, which others'
// progress causes, and TransientFailures times in a row after anything else.
const (
	TransientFailures = 8
	BatchesAhead      = 16 // of one transaction at once
)

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
func NewTransient() *Transient { return &Transient{pause: New(2*time.Millisecond, 2*time.Second)} }

// After pauses if another attempt may succeed where one failed with err, and returns the error
// otherwise.
func (t *Transient) After(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return model.WithContext(ctx, err)
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

// isTransient tells a momentary state of the store or the oracle from an error that somebody has to
// mend.
func isTransient(err error) bool {
	for _, definite := range []error{model.ErrClosed, model.ErrUnique, model.ErrCorrupt, model.ErrTooLarge, model.ErrSchemaMismatch, model.ErrInvalidArgument} {
		if errors.Is(err, definite) {
			return false
		}
	}
	return model.Ambiguous(err) || errors.Is(err, model.ErrOutcomeUnknown) || errors.Is(err, model.ErrSnapshotTooOld)
}
