package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// keepHold extends the hold periodically until stop is called. The context that it returns ends
// when the hold is gone.
func (r *run) keepHold(ctx context.Context, h admin.Hold) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(max(r.opts.HoldTTL/8, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-tick.C:
			}
			// Other errors are transient; export extends the hold once more at its end.
			if _, err := r.admin.ExtendHold(held, h, r.opts.HoldTTL); errors.Is(err, percolator.ErrSnapshotTooOld) {
				cancel(holdError(err))
			}
		}
	}()
	return held, func() { cancel(nil); <-ended }
}

func holdError(err error) error {
	if errors.Is(err, percolator.ErrSnapshotTooOld) {
		return fmt.Errorf("backup: %w; begin again with a new snapshot (--restart): %w", ErrHoldGone, err)
	}
	return err
}

// releaseTimeout bounds the release of a hold when the caller's context has ended.
const releaseTimeout = 10 * time.Second

func (r *run) release(ctx context.Context, h admin.Hold) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.admin.ReleaseHold(ctx, h); err != nil {
		return fmt.Errorf("backup: the hold at %d was not released; it expires by itself: %w", h.Timestamp, err)
	}
	return nil
}
