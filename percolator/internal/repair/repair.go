// Package repair makes an instance what it was at one timestamp, from tables that are each row a
// prefix of its own history: native backups, or a replica that took over. It stands above package
// engine, beside package gc. Its one idea: what the primaries say at that timestamp is stable, so
// every step can be repeated, in any process.
package repair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Every row of the tables was cut off at a time of its own. S is *complete* if every transaction
// that committed at or below S was decided before the first cut. Then, of each such transaction, a
// row has the record, or still the lock, and the primary's row has the record. So
//
//	drain     fence the instance, and wait until every client knows (I20)
//	resolve   decide each lock by its primary: committed at or below S, or not; roll it forward or
//	          back. What the primary cannot tell, a record at or below S elsewhere may (Finding)
//	remove    erase records, markers, data and notifications above S; notify what the runs above S
//	          had dealt with
//	finish    make the indexes, holds and positions of percolator_meta those of S, audit, see that
//	          the oracle is above everything, and lift the fence
//
// is the state at S. Each phase is stored in the fence and can be repeated. What becomes of a lock
// does not depend on how far an interrupted repair had come: only records at or below S count, and
// none of these ever goes (I23). Locks come first nevertheless: while records above S are there, a
// primary tells a later commit from nothing, and only nothing is in doubt. What is erased lies
// between S and the greatest timestamp that was there, so that even a process that was stopped in
// the middle and continues after the end harms nothing. A process looks for the fence before each
// request (I20).
//
// Rejected: markers for what is rolled back. No request from before the fence is in flight (I14),
// and no transaction from before it commits (meta.Gap).
//
// Rejected: a conditional request for each lock (I9). No other client resolves beside the fence.

// maxLocks is how many locks one round keeps in memory; there are as many rounds as it takes.
const maxLocks = 100_000

// maxFindings bounds Report.Findings, but not Report.Found.
const maxFindings = 1000

// maxAhead is how far above the oracle's present a cell may lie for the repair to raise the oracle:
// a raise cannot be taken back.
const maxAhead = time.Hour

// run is a running repair.
type run struct {
	e      *engine.Engine
	opts   model.RepairOptions
	fence  *meta.Fence // nil in a dry run
	repair meta.Repair
	tables []string

	mu     sync.Mutex
	report model.RepairReport // guarded by mu
}

// Run repairs the instance of e, or takes up a repair that was interrupted, and returns when
// all clients can use it again.
//
// Errors: ErrSnapshotTooOld if collection has passed opts.To, or an earlier repair has removed it;
// ErrInvalidArgument if it lies in the oracle's future; ErrRestoring, and ErrRepairing for a repair
// to another timestamp; ErrNotHeld, ErrOracleBehind and ErrRepairFindings, which name the way on;
// those of the store. After an error the fence may be there, and the same call goes on.
func Run(ctx context.Context, e *engine.Engine, opts model.RepairOptions) (model.RepairReport, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return model.RepairReport{}, err
	}
	ctx, end := e.WhileOpen(store.InBackground(ctx))
	defer end()
	r := &run{e: e, opts: opts, report: model.RepairReport{To: opts.To}}
	err := r.begin(ctx)
	if err == nil && opts.DryRun {
		err = r.dryRun(ctx)
	} else if err == nil {
		err = r.phases(ctx)
	}
	report := r.snapshot()
	report.Unfinished = err != nil && r.fence != nil
	return report, e.OrClosed(ctx, err)
}

// begin checks what is asked for, and stores the fence or takes it up.
func (r *run) begin(ctx context.Context) error {
	m, err := r.e.Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	if f := m.Fence; f != nil {
		if f.Repair == nil || f.Repair.To != r.opts.To {
			return f.Refusal()
		}
		r.fence, r.repair = f, *f.Repair
		r.know()
		return nil
	}
	r.repair = meta.Repair{To: r.opts.To, Phase: model.RepairDrain}
	if err := r.check(ctx, m, new(meta.Repair)); err != nil {
		return err
	}
	r.know()
	if r.opts.DryRun {
		return nil
	}
	return r.enter(ctx, r.repair)
}

// know lists the tables of the schema and of its indexes, and those that are being dropped: they
// still decide locks elsewhere, and the drop goes by that later (I26).
func (r *run) know() { r.tables = slices.Sorted(maps.Keys(r.e.Meta.Catalog.Load().Tables)) }

// deleted reports whether err says that a table is missing that the cut takes for one that is being
// dropped.
func (r *run) deleted(table string, err error) bool {
	return errors.Is(err, model.ErrSchemaMismatch) && slices.Contains(r.e.Meta.Catalog.Load().Schema.Dropping, table)
}

// check refuses a timestamp that the tables do not have, or no longer, and notes in next what the
// holds say.
func (r *run) check(ctx context.Context, m meta.State, next *meta.Repair) error {
	now, err := r.e.Clock.Next(ctx)
	if err != nil {
		return err
	}
	to := r.opts.To
	gap, in := m.InGap(to)
	switch {
	case to <= 0 || to > now:
		return fmt.Errorf("percolator: %w: a repair to %d, which is not between 1 and the oracle's present (%d)", model.ErrInvalidArgument, to, now)
	case to <= max(m.Safepoint, m.Watermark):
		return fmt.Errorf("percolator: %w: a repair to %s, which is at or below the safepoint %s", model.ErrSnapshotTooOld, text.At(to), text.At(m.Safepoint))
	case in:
		return fmt.Errorf("percolator: %w: a repair to %d, which a repair to %d has removed", model.ErrSnapshotTooOld, to, gap.After)
	}
	return r.held(m, next)
}

// enter stores a phase.
func (r *run) enter(ctx context.Context, next meta.Repair) error {
	f := meta.Fence{Started: time.Now(), Repair: &next}
	if r.fence != nil {
		f.Started = r.fence.Started
	}
	if _, err := r.e.Meta.ReplaceFence(ctx, r.fence, &f, store.NewMutation(2)); err != nil {
		return err
	}
	m, err := r.e.Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	if m.Fence == nil || string(m.Fence.Encode()) != string(f.Encode()) {
		return fmt.Errorf("percolator: %w: another process continues the repair to %d", model.ErrConflict, next.To)
	}
	r.fence, r.repair = m.Fence, next
	return nil
}

// phases does what is left.
func (r *run) phases(ctx context.Context) error {
	for {
		next, err := r.repair, error(nil)
		switch next.Phase {
		case model.RepairDrain:
			next.Phase, err = model.RepairResolve, r.drain(ctx, &next)
		case model.RepairResolve:
			next.Phase, err = model.RepairRemove, r.resolve(ctx, &next)
		case model.RepairRemove:
			next.Phase, err = model.RepairFinish, r.remove(ctx)
		default:
			return r.finish(ctx)
		}
		if err == nil {
			err = r.enter(ctx, next)
		}
		if err != nil {
			return err
		}
	}
}

// drain waits until the fence is in force, and looks again: a collector may have announced a
// safepoint meanwhile. Nothing has changed yet, so a refusal lifts the fence.
func (r *run) drain(ctx context.Context, next *meta.Repair) error {
	d := catalog.DrainTime(r.e.Store.Timing)
	if r.opts.Waiting != nil {
		r.opts.Waiting(d)
	}
	if err := retry.Sleep(ctx, d); err != nil {
		return err
	}
	m, err := r.e.Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	r.know()
	err = r.check(ctx, m, next)
	if errors.Is(err, model.ErrSnapshotTooOld) || errors.Is(err, model.ErrNotHeld) {
		_, lerr := r.e.Meta.ReplaceFence(ctx, r.fence, nil, store.NewMutation(1))
		_, rerr := r.e.Meta.Refresh(ctx)
		if lerr == nil {
			r.fence = nil
		}
		return errors.Join(err, lerr, rerr)
	}
	return err
}

// held finds the hold that bounds what collection has removed from any row, whenever that was cut
// off. percolator_meta may have been cut off before other rows, so the watermark in it says little:
// but a watermark never passes a hold.
func (r *run) held(m meta.State, next *meta.Repair) error {
	to := r.repair.To
	next.Sound, next.Floor = m.Safepoint, max(m.Safepoint, to-1)
	// Take the oldest hold.
	at := slices.IndexFunc(m.Holds, func(h model.Hold) bool { return meta.HoldKeeps(h, to, m.Safepoint) })
	switch {
	case at >= 0:
		next.Floor = m.Holds[at].Timestamp - 1
		if next.Sound = next.Floor; slices.ContainsFunc(m.Holds[at:], func(h model.Hold) bool { return h.To == to && h.Timestamp == m.Holds[at].Timestamp }) {
			next.Sound = 0 // taken for these very copies
		}
	case !r.opts.WithoutHold:
		return fmt.Errorf("percolator: %w: there is no hold above the safepoint %s and at or below %s; if collection stood still while rows were copied, say so (--without-hold)",
			model.ErrNotHeld, text.At(m.Safepoint), text.At(to))
	}
	return nil
}

// inForce refuses to write once another process has gone on.
func (r *run) inForce(ctx context.Context) error {
	m, err := r.e.Meta.Known(ctx)
	if err != nil {
		return err
	}
	if f := m.Fence; f == nil || f.Repair == nil || *f.Repair != r.repair {
		return fmt.Errorf("percolator: %w: another process continues the repair to %d, or has finished it", model.ErrConflict, r.repair.To)
	}
	return nil
}

// pageSize bounds a page.
var pageSize = store.PageSize{Rows: 512, Cells: 20_000}

// tablesAtOnce is how many tables a phase goes through at a time.
const tablesAtOnce = 4

// eachPage hands the rows of all tables that q lets through to visit, from several goroutines.
func (r *run) eachPage(ctx context.Context, q store.Query, visit func(ctx context.Context, table string, rows []layout.Row) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(tablesAtOnce)
	budget := store.NewBudget()
	for _, table := range r.tables {
		g.Go(func() error {
			pass := r.e.Store.NewPass(table, model.All(), q, pageSize)
			pass.Budget = budget
			for page, err := range pass.Pages(ctx) {
				if err == nil {
					err = visit(ctx, table, page.Rows)
				}
				if r.deleted(table, err) {
					return nil
				}
				if err != nil {
					return err
				}
				r.passed(page)
			}
			return nil
		})
	}
	return g.Wait()
}

// passed tells that a page is done.
func (r *run) passed(page store.Page) {
	r.count(func(rep *model.RepairReport) { rep.Rows += int64(len(page.Rows)) })
	if r.opts.Progress != nil {
		r.opts.Progress(r.snapshot())
	}
}

func (r *run) count(add func(*model.RepairReport)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add(&r.report)
}

func (r *run) snapshot() model.RepairReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.report
	out.Phase = r.repair.Phase
	out.Findings = slices.Clone(out.Findings)
	return out
}

// find reports a lock.
func (r *run) find(cell model.Cell, start, commit tso.Timestamp, text string) {
	r.count(func(rep *model.RepairReport) {
		if rep.Found++; rep.Found <= maxFindings {
			rep.Findings = append(rep.Findings, model.RepairFinding{Cell: cell, Start: start, Commit: commit, Text: text})
		}
	})
}
