package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A commit request that was not acknowledged may have been applied, and may still be. What the
// primary shows decides the transaction (I17):
//
//	a record of it      → committed
//	its lock            → open: the same request is sent again, with the same commit timestamp
//	a rollback marker   → aborted
//	nothing             → aborted, unless the record may have been collected
//
// When the request's lifetime has passed, this client sends nothing more for the transaction (I14).
// Its caller still waits, and can still learn the outcome: the client now treats the lock as it
// would another client's, alive until its time has passed, then rolled back through the primary
// (I8).
//
// Rejected: rolling the own lock back at once. It would be correct, as no commit request can be
// applied any more, but a second way to resolve a lock, to be proved on its own.

// outcome is how far a transaction came whose commit request was not acknowledged.
type outcome int

const (
	outcomeOpen      outcome = iota // its lock holds the primary
	outcomeCommitted                // its record is on the primary
	outcomeAborted                  // it can never commit
	outcomeCollected                // its record, if there was one, may have been collected
)

// outcomeOf decides by the status on the primary and, where that is unknown, by a GC watermark read
// after it. It is pure.
func outcomeOf(s locks.TxnStatus, startTS, watermark tso.Timestamp) outcome {
	switch {
	case s.State == locks.TxnLocked:
		return outcomeOpen
	case s.State == locks.TxnCommitted:
		return outcomeCommitted
	case s.State == locks.TxnUnknown && startTS <= watermark:
		return outcomeCollected
	}
	return outcomeAborted
}

// readOutcome reads the primary once.
func (cm *commit) readOutcome(ctx context.Context) (outcome, locks.TxnStatus, error) {
	s, err := cm.c.Locks.Status(ctx, cm.primary.Cell, cm.startTS)
	var watermark tso.Timestamp
	if err == nil && s.State == locks.TxnUnknown {
		m, merr := cm.c.Meta.Refresh(ctx)
		watermark, err = m.Watermark, merr
	}
	return outcomeOf(s, cm.startTS, watermark), s, err
}

// end tells the caller how the transaction ended.
func (cm *commit) end(ctx context.Context, o outcome, commitTS tso.Timestamp, cause error) error {
	switch o {
	case outcomeCommitted:
		cm.committed(commitTS)
		return nil
	case outcomeCollected:
		return cm.unknown(ctx, cause)
	}
	if time.Now().Before(cm.until) {
		cm.cleanUp(ctx)
	}
	return &model.ConflictError{Cell: cm.primary.Cell, StartTS: cm.startTS}
}

// afterCommitRequest decides a commit request that was not acknowledged: cause is its error, nil if
// it did not match. resend: the transaction is open.
func (cm *commit) afterCommitRequest(ctx context.Context, cause error) (resend bool, err error) {
	pause := retry.NewBackoff(5*time.Millisecond, time.Second)
	for ctx.Err() == nil {
		o, s, err := cm.readOutcome(ctx)
		switch {
		case err != nil && (!retry.Ambiguous(err) || errors.Is(err, model.ErrClosed)):
			return false, cm.unknown(ctx, errors.Join(cause, err))
		case err != nil:
			if pause.Wait(ctx) != nil {
				return false, cm.unknown(ctx, err)
			}
		case o != outcomeOpen:
			return false, cm.end(ctx, o, s.CommitTS, cause)
		case cause != nil && !retry.Ambiguous(cause):
			return false, cm.giveUp(ctx, cause)
		default:
			return true, cause
		}
	}
	return false, cm.unknown(ctx, cause)
}

// afterLifetime waits for the outcome of a commit that stayed undecided for its lifetime; cause is
// why. ErrOutcomeUnknown: ctx has ended, the client is closed, the record may have been collected,
// or the store refuses to answer for good.
func (cm *commit) afterLifetime(ctx context.Context, cause error) error {
	pause := retry.NewBackoff(5*time.Millisecond, time.Second)
	for {
		o, s, err := cm.readOutcome(ctx)
		switch {
		case err == nil && o != outcomeOpen:
			return cm.end(ctx, o, s.CommitTS, nil)
		case err == nil:
			_, err = cm.c.Locks.Resolve(ctx, cm.primary.Cell, s.Lock, locks.SeenJustNow)
		}
		if err != nil {
			cause = err
		}
		lasting := err != nil && (!retry.Ambiguous(err) || errors.Is(err, model.ErrClosed) || errors.Is(err, model.ErrCorrupt))
		if lasting || pause.Wait(ctx) != nil {
			if errors.Is(cause, model.ErrOutcomeUnknown) {
				return retry.WithContext(ctx, cause)
			}
			return cm.unknown(ctx, cause)
		}
	}
}

// giveUp rolls back a transaction whose commit was refused for good, although an earlier attempt
// may still be in flight. The primary decides which came first (I8).
func (cm *commit) giveUp(ctx context.Context, cause error) error {
	s, err := cm.rollBack(ctx)
	switch {
	case err != nil:
		return cm.unknown(ctx, errors.Join(cause, err))
	case s.State == locks.TxnCommitted:
		cm.committed(s.CommitTS)
		return nil
	case s.State != locks.TxnRolledBack:
		return cm.unknown(ctx, cause)
	}
	return retry.WithContext(ctx, cause)
}

// unknown is ErrOutcomeUnknown with what prevented an answer.
func (cm *commit) unknown(ctx context.Context, cause error) error {
	err := fmt.Errorf("percolator: transaction %d with primary %s: %w", cm.startTS, cm.primary.Cell, model.ErrOutcomeUnknown)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return retry.WithContext(ctx, err)
}
