package commit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// A clean-up after an abort is bounded, more tightly once the caller has stopped waiting. Lock
// resolution does what it does not reach.
const (
	cleanUpTimeout   = 5 * time.Second
	cleanUpUnawaited = 500 * time.Millisecond
	cleanUpRow       = time.Millisecond // added for each row
)

// abort rolls the transaction back and returns cause. It does so before the caller can start its
// next attempt, which would otherwise meet these locks. The caller's context may have ended, so the
// clean-up has a deadline of its own.
//
// If the primary's table or one of its families is missing, or its row does not answer while others
// share the commit, no marker can be placed. None is needed to erase the other locks: no commit
// request has been sent, so no other client can commit this transaction (I6).
func (cm *commit) abort(ctx context.Context, cause error) error {
	ctx, span := cm.c.Store.Trace.Start(ctx, "percolator.rollback", "")
	defer span.End(nil)
	if err := cm.cleanUp(ctx); errors.Is(err, model.ErrSchemaMismatch) || err != nil && cm.patience > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cm.cleanUpLimit(ctx))
		defer cancel()
		if err := cm.c.Bulk.Do(ctx, cm.erasures(false)); err != nil {
			cm.c.Store.Warn(cm.c.Config.Logger, "erasure left to lock resolution", err, "start_ts", cm.startTS, "table", cm.primary.Cell.Table)
		}
	}
	return retry.WithContext(ctx, cause)
}

// cleanUpLimit gives large transactions the time that their rows take.
func (cm *commit) cleanUpLimit(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return cleanUpUnawaited
	}
	if cm.patience > 0 {
		return cm.patience
	}
	return min(cleanUpTimeout+time.Duration(len(cm.rows))*cleanUpRow, cm.c.Store.Timing.RequestLifetime)
}

// cleanUp makes sure that the transaction can never commit and then erases what it left, through
// the primary like every other roll back (I8). If no prewrite can have been applied it does
// nothing.
func (cm *commit) cleanUp(ctx context.Context) error {
	if !slices.ContainsFunc(cm.rows, cm.touched) {
		// Otherwise keep the entry: the collector finds the markers by it (J8).
		cm.c.Journal.Drop(cm.entry)
		cm.c.Journal.Own.RolledBack(cm.entry)
		return nil
	}
	if m, _ := cm.c.Meta.Snapshot(); cm.entry != nil && cm.startTS <= m.Safepoint {
		return nil // the collector resolves it; no one would collect a later marker (J8)
	}
	_, err := cm.rollBack(ctx)
	if err != nil {
		cm.c.Store.Warn(cm.c.Config.Logger, "roll back left to lock resolution", err, "start_ts", cm.startTS, "table", cm.primary.Cell.Table)
	}
	return err
}

func (cm *commit) touched(rw *rowWrites) bool {
	cm.mu.Lock()
	defer cm.mu.Unlock()
	return cm.outcome[rw] == touched
}

// rollBack decides the transaction on its primary and, unless it turns out to have committed,
// erases what it left. It has a deadline of its own, as the caller's context may have ended.
func (cm *commit) rollBack(ctx context.Context) (locks.TxnStatus, error) {
	// From here on readers ask the store instead of awaiting the clean-up.
	cm.c.Locks.Own.Decide(cm.startTS, 0, 0)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cm.cleanUpLimit(ctx))
	defer cancel()
	if !cm.until.IsZero() { // a commit request may have been sent
		ctx, cancel = context.WithDeadline(ctx, cm.until)
		defer cancel()
	}
	p := cm.primary.Cell
	var siblings []string
	for _, w := range cm.rows[0].writes {
		if w.Cell.Column != p.Column {
			siblings = append(siblings, w.Cell.Column)
		}
	}
	matched, err := cm.c.Locks.RollBackOwn(ctx, p, cm.startTS, siblings)
	if err != nil {
		return locks.TxnStatus{}, err
	}
	s := locks.TxnStatus{State: locks.TxnRolledBack}
	if matched { // another client, an earlier attempt or a commit request came first
		if s, err = cm.c.Locks.Status(ctx, p, cm.startTS); err != nil {
			return locks.TxnStatus{}, err
		}
	}
	if s.State != locks.TxnRolledBack {
		return s, nil
	}
	if err := cm.c.Bulk.Do(ctx, cm.erasures(matched)); err != nil {
		cm.c.Store.Warn(cm.c.Config.Logger, "erasure left to lock resolution", err, "start_ts", cm.startTS, "table", p.Table)
	} else if !cm.toldWeakly { // else a look dispatches what was notified (J4)
		cm.c.Journal.Own.RolledBack(cm.entry)
	}
	return s, nil
}

// erasures removes lock@start_ts and data@start_ts of the rows. It includes the primary's row if
// another client's roll back, which knows only the primary cell, came first.
func (cm *commit) erasures(primaryToo bool) []store.RowMutation {
	var muts []store.RowMutation
	deadline := time.Now().Add(cm.c.Store.Timing.RequestLifetime)
	for _, rw := range cm.rows {
		if !cm.touched(rw) || rw == cm.rows[0] && (!primaryToo || len(rw.writes) == 1) {
			continue
		}
		mut := store.NewMutation(2)
		for _, w := range rw.writes {
			mut.RollBack(w.Cell.Column, cm.startTS)
		}
		muts = append(muts, store.RowMutation{Table: rw.table, Row: rw.row, Mut: mut, Deadline: deadline})
	}
	return muts
}
