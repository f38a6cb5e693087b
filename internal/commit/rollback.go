package commit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/locks"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/store"
)

// A clean-up after an abort is bounded, more so when the caller has stopped waiting; what it does
// not reach is left to lock resolution.
const (
	cleanUpTimeout   = 5 * time.Second
	cleanUpUnawaited = 500 * time.Millisecond
	cleanUpRow       = time.Millisecond // more, for each row
)

// abort rolls the transaction back before the caller can start its next attempt, which would
// otherwise meet these locks, and returns cause. The caller's context may have ended: the clean-up
// has a deadline of its own.
//
// When the primary's table or one of its families is missing, no marker can be placed. None is
// needed to take back the other locks, as no commit request has been sent: nobody else can commit
// this transaction (I6).
func (cm *commit) abort(ctx context.Context, cause error) error {
	ctx, span := cm.c.Store.Trace.Start(ctx, "percolator.rollback", "")
	defer span.End(nil)
	if err := cm.cleanUp(ctx); errors.Is(err, model.ErrSchemaMismatch) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cm.cleanUpLimit(ctx))
		defer cancel()
		if err := cm.c.Bulk.Do(ctx, cm.erasures(false)); err != nil {
			cm.c.Config.Logger.Warn("erasure left to lock resolution", "start_ts", cm.startTS, "table", cm.primary.Cell.Table, "error", err)
		}
	}
	return model.WithContext(ctx, cause)
}

// cleanUpLimit leaves large transactions the time that their rows take.
func (cm *commit) cleanUpLimit(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return cleanUpUnawaited
	}
	return min(cleanUpTimeout+time.Duration(len(cm.rows))*cleanUpRow, cm.c.Store.Timing.RequestLifetime)
}

// cleanUp makes sure that the transaction can never commit and then erases what it left. It passes
// the primary like every other roll back (I8). When no prewrite can have been applied there is
// nothing to do.
func (cm *commit) cleanUp(ctx context.Context) error {
	if !slices.ContainsFunc(cm.rows, cm.touched) {
		return nil
	}
	_, err := cm.rollBack(ctx)
	if err != nil {
		cm.c.Config.Logger.Warn("roll back left to lock resolution", "start_ts", cm.startTS, "table", cm.primary.Cell.Table, "error", err)
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
	cm.c.Locks.Own.Decide(cm.startTS, 0, 0) // readers need not wait for the clean-up; the store says what becomes of the locks
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
	decided, err := cm.c.Locks.RollBackPrimary(ctx, p, cm.startTS, siblings)
	if err != nil {
		return locks.TxnStatus{}, err
	}
	d := locks.TxnStatus{State: locks.TxnRolledBack}
	if decided { // by somebody else, by our own first sending, or by a commit request that was given up too early
		if d, err = cm.c.Locks.Status(ctx, p, cm.startTS); err != nil {
			return locks.TxnStatus{}, err
		}
	}
	if d.State != locks.TxnRolledBack {
		return d, nil
	}
	if err := cm.c.Bulk.Do(ctx, cm.erasures(decided)); err != nil {
		cm.c.Config.Logger.Warn("erasure left to lock resolution", "start_ts", cm.startTS, "table", p.Table, "error", err)
	}
	return d, nil
}

// erasures removes lock@start_ts and data@start_ts of the rows. The primary's row is included when
// somebody else's roll back, which knows only the primary cell, came first.
func (cm *commit) erasures(primaryToo bool) []store.RowMutation {
	var muts []store.RowMutation
	deadline := time.Now().Add(cm.c.Store.Timing.RequestLifetime)
	for _, rw := range cm.rows {
		if !cm.touched(rw) || rw == cm.rows[0] && (!primaryToo || len(rw.writes) == 1) {
			continue
		}
		mut := store.NewMutation(2)
		for _, w := range rw.writes {
			mut.Erase(layout.LockFamily, w.Cell.Column, cm.startTS)
			mut.Erase(layout.DataFamily, w.Cell.Column, cm.startTS)
		}
		muts = append(muts, store.RowMutation{Table: rw.table, Row: rw.row, Mut: mut, Deadline: deadline})
	}
	return muts
}
