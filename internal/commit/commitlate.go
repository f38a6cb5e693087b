package commit

import (
	"context"
	"errors"
	"github.com/gopercolator/percolator/internal/locks"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
	"time"
)

// A commit that could not be decided within its lifetime, because the store did not answer for so long, decides nothing any
// more (I14). But its caller still waits, and the outcome can still be learned: from now on this client is to the transaction
// what everybody else is. It reads the primary, and treats the lock that it finds there as it would a stranger's: alive until
// its time has passed, then rolled back through the primary (I8).
//
// Rejected: rolling the own lock back at once. Nothing would be wrong with it, as no commit request of this transaction can
// be applied any more, but it would be a second way to settle a lock, to be proved on its own.

// decideLate returns how the commit has ended, once that is known; cause is why it was not known before. ErrOutcomeUnknown: ctx has
// ended, the client is closed, the record may have been collected, or the store refuses to answer for good.
func (cm *commit) decideLate(ctx context.Context, cause error) error {
	pause := retry.New(5*time.Millisecond, time.Second)
	for {
		known, err := cm.look(ctx)
		if known {
			return err
		}
		if err != nil {
			cause = err
		}
		lasting := errors.Is(err, model.ErrClosed) || errors.Is(err, model.ErrCorrupt) || err != nil && !model.Ambiguous(err)
		if lasting || pause.Wait(ctx) != nil {
			if errors.Is(cause, model.ErrOutcomeUnknown) {
				return model.WithContext(ctx, cause)
			}
			return cm.unknown(ctx, cause)
		}
	}
}

// look reads the primary once. The commit is known to have succeeded, or to have failed, if known is true.
func (cm *commit) look(ctx context.Context) (known bool, err error) {
	d, err := cm.c.Locks.Status(ctx, cm.primary.Cell, cm.startTS)
	if err != nil {
		return false, err
	}
	switch d.State {
	case locks.TxnCommitted:
		cm.committed(d.CommitTS)
		return true, nil
	case locks.TxnLocked:
		_, err := cm.c.Locks.Resolve(ctx, cm.primary.Cell, d.Lock, true)
		return false, err
	case locks.TxnUnknown:
		m, err := cm.c.Meta.Refresh(ctx)
		if err != nil {
			return false, err
		}
		if cm.startTS <= m.Watermark {
			return true, cm.unknown(ctx, nil)
		}
	}
	return true, &model.ConflictError{Cell: cm.primary.Cell, StartTS: cm.startTS}
}
