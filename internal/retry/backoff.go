package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/internal/model"
)

// Backoff waits with full jitter around a doubling interval: contenders that were woken together
// separate.
type Backoff struct{ next, limit time.Duration }

func New(first, limit time.Duration) *Backoff { return &Backoff{first, limit} }

// Wait pauses, or returns the context's error as soon as it ends.
func (b *Backoff) Wait(ctx context.Context) error {
	d := b.next/2 + rand.N(b.next)
	b.next = min(2*b.next, b.limit)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// A batch that fails for a reason that may pass is tried again: for ever after conflicts, which
// others' progress causes, and TransientFailures times in a row after anything else.
const (
	TransientFailures = 8
	BatchesAhead      = 16 // for each transaction at once
)

func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("percolator: %w", ctx.Err())
	}
}

// timeout decides how often something is tried again.
type Transient struct {
	pause  *Backoff
	failed int
}

func NewTransient() *Transient { return &Transient{pause: New(2*time.Millisecond, 2*time.Second)} }

// After pauses if what failed with err may succeed later, and returns the error otherwise.
func (p *Transient) After(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return model.WithContext(ctx, err)
	}
	if !errors.Is(err, model.ErrConflict) {
		if p.failed++; p.failed == TransientFailures || !isTransient(err) {
			return err
		}
	}
	if perr := p.pause.Wait(ctx); perr != nil {
		return fmt.Errorf("%w: %w", err, perr)
	}
	return nil
}

// isTransient says whether an error is the store's or the oracle's momentary state rather than
// something that somebody has to change.
func isTransient(err error) bool {
	for _, definite := range []error{model.ErrClosed, model.ErrUnique, model.ErrCorrupt, model.ErrTooLarge, model.ErrSchemaMismatch, model.ErrInvalidArgument} {
		if errors.Is(err, definite) {
			return false
		}
	}
	return model.Ambiguous(err) || errors.Is(err, model.ErrOutcomeUnknown) || errors.Is(err, model.ErrSnapshotTooOld)
}
