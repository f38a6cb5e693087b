package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/locks"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/tso"
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

// outcomeOfCommit reads the primary to decide a commit that was not acknowledged (I17). cause is the error of the request, nil
// if it did not match.
func (cm *commit) outcomeOfCommit(ctx context.Context, commitTS tso.Timestamp, cause error) (resend bool, err error) {
	if ctx.Err() != nil {
		return false, cm.unknown(ctx, cause)
	}
	var d locks.TxnStatus
	pause := retry.New(5*time.Millisecond, time.Second)
	for {
		if d, err = cm.c.Locks.Status(ctx, cm.primary.Cell, cm.startTS); err == nil || !model.Ambiguous(err) || errors.Is(err, model.ErrClosed) {
			break
		}
		if pause.Wait(ctx) != nil {
			return false, cm.unknown(ctx, err)
		}
	}
	switch {
	case err != nil:
		return false, cm.unknown(ctx, err)
	case d.State == locks.TxnCommitted:
		cm.committed(d.CommitTS)
		return false, nil
	case d.State == locks.TxnLocked && cause != nil && !model.Ambiguous(cause):
		return false, cm.giveUp(ctx, cause)
	case d.State == locks.TxnLocked:
		return true, cause
	case d.State == locks.TxnUnknown:
		m, err := cm.c.Meta.Refresh(ctx)
		if err != nil || cm.startTS <= m.Watermark {
			return false, cm.unknown(ctx, errors.Join(cause, err))
		}
	}
	cm.cleanUp(ctx)
	return false, &model.ConflictError{Cell: cm.primary.Cell, StartTS: cm.startTS}
}

// giveUp rolls back a transaction whose commit was refused for good, although an earlier sending may still be on its way. The
// primary decides who came first, as always (I8).
func (cm *commit) giveUp(ctx context.Context, cause error) error {
	d, err := cm.rollBack(ctx)
	switch {
	case err != nil:
		return cm.unknown(ctx, errors.Join(cause, err))
	case d.State == locks.TxnCommitted:
		cm.committed(d.CommitTS)
		return nil
	case d.State != locks.TxnRolledBack:
		return cm.unknown(ctx, cause)
	}
	return model.WithContext(ctx, cause)
}

func (cm *commit) unknown(ctx context.Context, cause error) error {
	err := fmt.Errorf("percolator: transaction %d with primary %s: %w", cm.startTS, cm.primary.Cell, model.ErrOutcomeUnknown)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return model.WithContext(ctx, err)
}
