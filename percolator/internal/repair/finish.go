package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/audit"
	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// positions begin the rows of percolator_meta that tell how far something has come outside of
// transactions. What was done above the timestamp of the repair has to be done again, and nothing
// says how far it had come then.
var positions = []string{meta.CollectorRow, meta.SweepRow, meta.BackfillRowPrefix, meta.LoadRowPrefix, meta.DeletionRowPrefix, meta.BackfillObserverRowPrefix, meta.ForgetObserverRowPrefix}

// finish makes percolator_meta that of the repaired tables, and lifts the fence.
func (r *run) finish(ctx context.Context) (err error) {
	if err := r.inForce(ctx); err != nil {
		return err
	}
	if r.report.Building, err = r.e.Meta.ReopenIndexes(ctx, r.repair.To); err != nil {
		return err
	}
	if err := r.emptyJournal(ctx); err != nil {
		return err
	}
	if err := r.forgetPositions(ctx); err != nil {
		return err
	}
	if err := r.audit(ctx); err != nil {
		return err
	}
	now, err := r.raise(ctx)
	if err != nil {
		return err
	}
	m, err := r.e.Meta.Refresh(ctx)
	if err == nil {
		err = r.inForce(ctx)
	}
	if err != nil {
		return err
	}
	r.holds(m)
	lifted, err := r.e.Meta.LiftRepair(ctx, m, now)
	if err != nil {
		return err
	}
	r.report.Until, r.report.Floor = now, r.repair.Floor
	m, err = r.e.Meta.Refresh(ctx)
	if err == nil && !lifted && m.Fence != nil {
		err = m.Fence.Refusal()
	}
	return err
}

// holds counts those that go, and lists the weak columns of which a notification may be lost.
func (r *run) holds(m meta.State) {
	kept := 0
	for _, h := range m.Holds {
		if meta.HoldKeeps(h, r.repair.To, r.repair.Floor) {
			kept++
		} else if h.Timestamp <= tso.MaxTimestamp {
			r.report.Holds++
		}
	}
	if kept > 0 {
		return
	}
	for _, t := range r.e.Meta.Catalog.Load().Schema.Tables {
		for _, column := range t.Weak {
			r.report.Weak = append(r.report.Weak, t.Name+"."+column)
		}
	}
	slices.Sort(r.report.Weak)
}

// emptyJournal has the journal built again: its rows were cut off like any others, each at a time
// of its own, so it may lack entries. Those that it has go. Headers stay: a client that lives
// through the repair goes on in its streams, and appends to none without a header (J3). What is
// parked stays too: the rows of the cells tell whether it still is.
func (r *run) emptyJournal(ctx context.Context) error {
	if r.opts.DryRun || !r.e.Meta.Journaled() {
		return nil
	}
	if err := r.e.Meta.ReopenJournal(ctx); err != nil {
		return err
	}
	size := store.PageSize{Rows: pageSize.Rows, Bytes: store.PassBytes}
	for page, err := range r.e.Store.NewPass(model.JournalTable, model.All(), store.JournalCells(), size).Pages(ctx) {
		if err != nil {
			return err
		}
		b := &batch{r: r, table: model.JournalTable}
		for _, row := range page.Rows {
			if journal.HoldsEntries(row.Key) {
				b.of(row.Key).EraseRow()
			}
		}
		if err := b.send(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) forgetPositions(ctx context.Context) error {
	b := &batch{r: r, table: model.MetaTable}
	for _, prefix := range positions {
		err := r.e.Store.ReadRows(ctx, model.MetaTable, store.Prefix(prefix), store.Cells("", 0), 0, func(row layout.Row) bool {
			// The oracle may have its own family in the row.
			for _, it := range row.Of(layout.MetaFamily) {
				b.of(row.Key).EraseColumn(layout.MetaFamily, it.Column)
			}
			r.report.Positions++
			return true
		})
		if err != nil {
			return err
		}
	}
	if r.opts.DryRun {
		return nil
	}
	return b.send(ctx)
}

// auditTransactions bounds the memory of the audit: some 100 MB.
const auditTransactions = 1 << 20

// audit reads everything once more. No client writes, so every contradiction to the protocol is
// damage. Indexes are compared when they can be read, by VerifyIndex; the notifications are this
// repair's.
func (r *run) audit(ctx context.Context) error {
	a, err := audit.Run(ctx, func(ctx context.Context, table string, visit func(layout.Row)) error {
		if table == model.MetaTable {
			row, err := r.e.Store.ReadRow(ctx, table, meta.RowKey, store.Cells("", 0))
			visit(row)
			return err
		}
		for page, err := range r.e.Store.NewPass(table, model.All(), store.History(), pageSize).Pages(ctx) {
			if err != nil {
				return err
			}
			for _, row := range page.Rows {
				visit(row)
			}
			r.passed(page)
		}
		return nil
	}, model.AuditConfig{Schema: r.e.Meta.Catalog.Load().Schema, Transactions: auditTransactions, SkipNotifications: true, SkipIndexes: true, SkipJournal: true})
	if err != nil {
		return fmt.Errorf("percolator: %w", err)
	}
	r.report.Audited, r.report.Audit = a.Found, a.Findings
	if a.Found > 0 && !r.opts.DespiteFindings {
		return fmt.Errorf("percolator: %w: the audit has %d findings; look at them, and lift the fence nevertheless (--despite-findings), or restore a backup", model.ErrRepairFindings, a.Found)
	}
	return nil
}

// raiseTimeout is how long a server may take to lead above the raised mark: a lease, and a start.
const raiseTimeout = time.Minute

// raise sees that the oracle is above all cells, and returns a timestamp of it.
func (r *run) raise(ctx context.Context) (tso.Timestamp, error) {
	now, err := r.e.Clock.Next(ctx)
	if err != nil || now > r.repair.Greatest {
		return now, err
	}
	if ahead := r.repair.Greatest.Sub(now); r.opts.Raise == nil || ahead > maxAhead {
		return 0, fmt.Errorf("percolator: %w: a cell is at %d, %v ahead; raise its mark, if that is no damaged cell (percolator tso raise --to %d), and run the repair again",
			model.ErrOracleBehind, r.repair.Greatest, ahead, r.repair.Greatest)
	}
	if err := r.opts.Raise(ctx, r.repair.Greatest); err != nil {
		return 0, fmt.Errorf("percolator: raising the oracle: %w", err)
	}
	// A leader that was fenced may serve what is left of its window.
	ctx, cancel := context.WithTimeout(ctx, raiseTimeout)
	defer cancel()
	for pause := retry.NewBackoff(100*time.Millisecond, time.Second); now <= r.repair.Greatest; {
		if pause.Wait(ctx) != nil {
			return 0, errors.Join(fmt.Errorf("percolator: %w: it was raised to %d, and hands out %d; run the repair again", model.ErrOracleBehind, r.repair.Greatest, now), err)
		}
		if next, nerr := r.e.Clock.Next(ctx); nerr == nil {
			now = next
		} else {
			err = nerr
		}
	}
	return now, nil
}

// dryRun counts what a repair would do.
func (r *run) dryRun(ctx context.Context) error {
	m, err := r.e.Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	next := r.repair
	if err := r.held(m, &next); err != nil {
		return err
	}
	s, err := r.survey(ctx)
	if err != nil {
		return err
	}
	next.Greatest = s.greatest
	r.repair, r.report.Floor = next, next.Floor
	if _, err := r.resolveAll(ctx, s.locks); err != nil {
		return err
	}
	if err := r.remove(ctx); err != nil {
		return err
	}
	for name, st := range m.Indexes {
		if st.Building || st.Since > r.repair.To {
			r.report.Building = append(r.report.Building, name)
		}
	}
	slices.Sort(r.report.Building)
	r.holds(m)
	return r.forgetPositions(ctx)
}
