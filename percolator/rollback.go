package percolator

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/bigtable"
)

// cleanUpTimeout bounds the clean-up after an abort; what it does not reach is left to lock resolution.
const cleanUpTimeout = 5 * time.Second

// abort rolls the transaction back before the caller can start its next attempt, which would otherwise meet these locks, and
// returns cause. The caller's context may have ended: the clean-up has a deadline of its own.
func (cm *commit) abort(ctx context.Context, cause error) error {
	cm.cleanUp(ctx)
	return withContext(ctx, cause)
}

// cleanUp makes sure that the transaction can never commit and then erases what it left. It passes the primary like every
// other roll back (I8). When no prewrite can have been applied there is nothing to do.
func (cm *commit) cleanUp(ctx context.Context) {
	var left []*rowWrites
	for _, rw := range cm.rows {
		if cm.outcome[rw] == touched {
			left = append(left, rw)
		}
	}
	if len(left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	if err := cm.rollBackAll(ctx, left); err != nil {
		cm.c.cfg.Logger.Warn("roll back left to lock resolution", "start_ts", cm.startTS, "table", cm.primary.cell.Table, "error", err)
	}
}

func (cm *commit) rollBackAll(ctx context.Context, left []*rowWrites) error {
	p := cm.primary.cell
	var siblings []string
	for _, w := range cm.rows[0].writes {
		if w.cell.Column != p.Column {
			siblings = append(siblings, w.cell.Column)
		}
	}
	decided, err := cm.c.rollBackPrimary(ctx, p, cm.startTS, siblings)
	if err != nil {
		return err
	}
	if decided {
		// A marker of somebody else, or of our own first sending. A commit can be there only if one was sent; then it has
		// been decided by reading the primary before anything is cleaned up.
		d, err := cm.c.fateOf(ctx, p, cm.startTS)
		if err != nil {
			return err
		}
		if d.fate != fateRolledBack {
			return fmt.Errorf("percolator: %s: transaction %d is not rolled back on its primary", p, cm.startTS)
		}
	}
	return cm.c.bulk.do(ctx, cm.erasures(left, decided))
}

// erasures removes lock@start_ts and data@start_ts of the rows. The primary's row is included when somebody else's roll
// back, which knows only the primary cell, came first.
func (cm *commit) erasures(left []*rowWrites, primaryToo bool) []rowMutation {
	var muts []rowMutation
	for _, rw := range left {
		if rw == cm.rows[0] && (!primaryToo || len(rw.writes) == 1) {
			continue
		}
		mut := bigtable.NewMutation()
		for _, w := range rw.writes {
			eraseExactly(mut, lockFamily, w.cell.Column, cm.startTS)
			eraseExactly(mut, dataFamily, w.cell.Column, cm.startTS)
		}
		muts = append(muts, rowMutation{table: rw.table, row: rw.row, mut: mut, deadline: time.Now().Add(cleanUpTimeout)})
	}
	return muts
}
