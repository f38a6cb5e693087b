package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/audit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// How long everything may take, in virtual time, after the last fault.
const (
	stopWithin = 5 * time.Minute // until every transaction under way has ended
	restWithin = time.Hour       // until everything is collected, without deliberate waits
)

// rest lets the store come to rest and judges everything.
func (w *world) rest(ctx context.Context) (*history.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, restWithin+4*time.Hour)
	defer cancel()
	p, err := w.open(ctx, "final")
	if err != nil {
		return nil, err
	}
	w.finishCopies(ctx, p)
	w.finishJournal(ctx, p)
	w.finishGrowth(ctx, p)
	w.finishLoad(ctx, p)
	w.finishImport(ctx, p)
	w.finishDrop(ctx, p)
	w.finishRebuild(ctx, p)
	w.finishDeletion(ctx, p)
	w.finishTurns(ctx, p)
	w.comeToRest(ctx, p)
	w.finishWatching(ctx, p)
	w.adoptHeaderless(ctx, p)
	if err := w.audit(ctx, p, false); err != nil {
		return nil, err
	}
	// Collection dispatches what it finds to the worker.
	w.besideWorker(ctx, p, func(rest func()) { w.expireAll(ctx, p, rest) })
	w.collectAll(ctx, p)
	if err := w.work.Final(ctx, p.client, true); err != nil {
		w.problem("the final reads: %v", err)
	}
	if err := p.client.Flush(ctx); err != nil {
		w.problem("the final flush: %v", err)
	}
	if err := w.audit(ctx, p, true); err != nil {
		return nil, err
	}
	w.checkSizes(p.client.Schema())
	w.checkDropped()
	w.restoreAll(ctx)
	w.repairCopies(ctx)
	w.epilogue(ctx)
	if err := p.leave(); err != nil {
		w.problem("closing the last client: %v", err)
	}
	w.recordDeletions()
	rules := w.work.Rules()
	rules.MaxAge = w.cfg.Retention / 2
	return history.Check(w.history, rules), nil
}

// idleWithin bounds how long the observers take until they have nothing left to do: locks of the
// dead are in the way for as long as they live.
func (w *world) idleWithin() time.Duration { return 10*time.Minute + 2*w.cfg.LockTTL }

// longAfter is when everything is old, and holds have expired.
func (w *world) longAfter() time.Duration { return w.cfg.Retention + w.backupHold() + 10*time.Minute }

// comeToRest waits until no observer has anything left to do.
func (w *world) comeToRest(ctx context.Context, p *process) {
	w.besideWorker(ctx, p, func(rest func()) { rest() })
}

// besideWorker calls f while a worker runs. rest waits until no observer has anything left to do.
func (w *world) besideWorker(ctx context.Context, p *process, f func(rest func())) {
	worker, err := observers.NewWorker(p.client, w.work.ObserversOf(p.name, p.client, p.client.Schema()), observers.Config{DisableCollection: true, MaxBackoff: 200 * time.Millisecond})
	if err != nil {
		w.problem("%v", err)
		return
	}
	wctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- worker.Run(wctx) }()
	f(func() {
		idle, cancel := context.WithTimeout(ctx, w.idleWithin())
		defer cancel()
		for again := 1; again > 0; {
			if err := worker.WaitIdle(idle); err != nil {
				w.problem("the observers do not come to rest: %v", err)
				break
			}
			again = w.retryAll(ctx, p)
		}
	})
	stop()
	if err := <-done; err != nil {
		w.problem("the last worker: %v", err)
	}
}

// collectAll runs a cycle that has everything to itself, a sweep for what dead processes have left
// without an entry in the journal (J8), and another cycle, so that nothing unreferenced may be
// left.
func (w *world) collectAll(ctx context.Context, p *process) {
	operator := admin.New(p.client)
	collector, err := operator.NewCollector(w.collectorConfig())
	if err != nil {
		w.problem("%v", err)
		return
	}
	sweeper, err := operator.NewSweeper(model.SweepConfig{RowsPerSecond: 1_000_000})
	if err != nil {
		w.problem("%v", err)
		return
	}
	// A request that arrived twice may have set a notification again for which the observers had
	// run. Nothing is lost then, but collection leaves the deletion to which it belongs, and a
	// sweep counts it.
	repeated := int64(w.repeated)
	cycle := func() {
		done, err := collector.Collect(ctx)
		for tries := 1; tries < cyclesMost && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; tries++ {
			done, err = collector.Collect(ctx) // a slow disk
		}
		w.note("collected: %+v, %v", done, err)
		if err != nil || done.Corrupt > 0 || repeated == 0 && done.Postponed+done.Dispatched > 0 {
			w.problem("the last collection: %+v, %v", done, err)
		}
	}
	w.advance(ctx, p, w.longAfter()) // everything is old, and holds have expired
	cycle()
	// One sweep finds what is left: but a worker may have begun it before, and rolling back what it
	// finds may leave a marker at a primary (J8), for another one.
	rested, err := p.oracle.Next(ctx)
	if err != nil {
		w.problem("%v", err)
		return
	}
	for range sweepsMost {
		w.advance(ctx, p, 2*time.Hour) // what is left is old work
		done, err := sweeper.Sweep(ctx)
		w.note("swept: %+v, %v", done, err)
		if err != nil || int64(done.Missed.Sum()) > repeated || done.Corrupt > 0 {
			w.problem("a sweep: %+v, %v", done, err)
		}
		if repeated > 0 {
			w.comeToRest(ctx, p)
		}
		if done.Started > rested { // it looked at everything
			repeated = 0
		}
		w.advance(ctx, p, w.longAfter())
		cycle()
		if err != nil || done.Announced == 0 && done.Started > rested {
			return
		}
	}
	w.problem("%d sweeps found something to deal with", sweepsMost)
}

// How often a sweep is repeated, and a cycle of collection that a slow disk has ended.
const (
	sweepsMost = 4
	cyclesMost = 4
)

// advance is the same as waiting, for all that go by the oracle's time: which may be ahead of its
// clocks.
func (w *world) advance(ctx context.Context, p *process, d time.Duration) {
	now, err := p.oracle.Next(ctx)
	if err != nil {
		w.problem("the oracle does not answer after the last fault: %v", err)
		return
	}
	w.oracle.setClocks(now.Add(d).Time())
}

// audit audits the raw tables, and adds what they hold to the history. A marker at or below the
// watermark says nothing: who asks about a lock long after its transaction was collected may leave
// one.
func (w *world) audit(ctx context.Context, p *process, collected bool) error {
	var seen []model.AuditedRecord
	report, err := audit.Run(ctx, func(_ context.Context, table string, visit func(layout.Row)) error {
		return w.cluster.Visit(table, func(r layout.Row) bool {
			visit(r)
			return true
		})
	}, model.AuditConfig{
		Schema: p.client.Schema(), Collected: collected,
		Observers: workload.Observed(), Repeated: w.cluster.Repeated,
		Visit: func(r model.AuditedRecord) { seen = append(seen, r) },
	})
	if err != nil {
		return errors.Join(errors.New("the audit failed"), err)
	}
	if report.Found > 0 {
		w.problem("the auditor: %s", report)
	}
	if left := report.Notifications - report.Repeated; left > 0 {
		w.problem("%d notifications are left at rest", left)
	}
	w.repeated = report.Repeated
	for _, r := range seen {
		if marker := r.Kind == 'R'; !marker || r.Start > report.GCWatermark {
			w.history.Found(history.Record{Cell: history.Cell(r.Cell), Start: r.Start, Commit: r.Commit, Marker: marker})
		}
	}
	return nil
}
