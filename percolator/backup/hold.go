package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

func holdError(err error) error {
	if errors.Is(err, percolator.ErrSnapshotTooOld) {
		return fmt.Errorf("backup: %w; begin again with a new snapshot (--restart): %w", ErrHoldGone, err)
	}
	return err
}

// releaseTimeout bounds the release of a hold when the caller's context has ended.
const releaseTimeout = 10 * time.Second

func (r *run) release(ctx context.Context, h model.Hold) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.admin.ReleaseHold(ctx, h); err != nil {
		return fmt.Errorf("backup: the hold at %d was not released; it expires by itself: %w", h.Timestamp, err)
	}
	return nil
}
