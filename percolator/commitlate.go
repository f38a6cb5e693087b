package percolator

import (
	"context"
	"errors"
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
	pause := newBackoff(5*time.Millisecond, time.Second)
	for {
		known, err := cm.look(ctx)
		if known {
			return err
		}
		if err != nil {
			cause = err
		}
		lasting := errors.Is(err, ErrClosed) || errors.Is(err, ErrCorrupt) || err != nil && !maybeApplied(err)
		if lasting || pause.wait(ctx) != nil {
			if errors.Is(cause, ErrOutcomeUnknown) {
				return withContext(ctx, cause)
			}
			return cm.unknown(ctx, cause)
		}
	}
}

// look reads the primary once. The commit is known to have succeeded, or to have failed, if known is true.
func (cm *commit) look(ctx context.Context) (known bool, err error) {
	d, err := cm.c.fateOf(ctx, cm.primary.cell, cm.startTS)
	if err != nil {
		return false, err
	}
	switch d.fate {
	case fateCommitted:
		cm.committed(d.commitTS)
		return true, nil
	case fateLocked:
		_, err := cm.c.resolve(ctx, cm.primary.cell, d.lock, true)
		return false, err
	case fateUnknown:
		m, err := cm.c.meta.refresh(ctx)
		if err != nil {
			return false, err
		}
		if cm.startTS <= m.mark {
			return true, cm.unknown(ctx, nil)
		}
	}
	return true, &ConflictError{Cell: cm.primary.cell, StartTS: cm.startTS}
}
