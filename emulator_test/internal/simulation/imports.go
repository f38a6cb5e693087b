package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
)

// importCargo runs one import after the other, and goes on with that of a process that died. Some
// others abort.
func (w *world) importCargo(p *process) {
	for p.ctx.Err() == nil {
		_ = retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(time.Second))))
		im := w.work.NextImport()
		if im == nil {
			<-p.ctx.Done()
			return
		}
		err := w.importOnce(p.ctx, p, im, w.planImport)
		if err == nil || p.ctx.Err() != nil {
			continue
		}
		w.note("%s: %s: %v", p.name, im.Table, err)
		if wrong := errors.Is(err, percolator.ErrCorrupt) || errors.Is(err, percolator.ErrUnique); wrong || w.cfg.intensity == 0 && !othersImport(err) {
			w.problem("%s: %s: %v", p.name, im.Table, err)
			return
		}
	}
}

// othersImport tells whether an import had to leave a table to others, or the oracle's time has
// moved on meanwhile, as it does in lulls.
func othersImport(err error) bool {
	for _, other := range []error{admin.ErrNotEmpty, admin.ErrImporting, percolator.ErrConflict, percolator.ErrSnapshotTooOld, loader.ErrTakenOver} {
		if errors.Is(err, other) {
			return true
		}
	}
	return false
}

// planImport decides about an attempt.
func (w *world) planImport(source string) workload.Plan {
	r := w.dice.next("import", source)
	return workload.Plan{Quiet: r.IntN(3) == 0, Early: r.IntN(3) == 0, Aborted: r.IntN(3) == 0, AbortedFor: r.IntN(2) == 0}
}

// importOnce does what is next for an import: it imports, or ends what another has begun.
func (w *world) importOnce(ctx context.Context, p *process, im *workload.Import, plan func(string) workload.Plan) error {
	if err := w.addToSchema(ctx, p, im.AddCargo); err != nil {
		return err
	}
	fence, err := fenceOf(ctx, p, im)
	switch {
	case err != nil:
		return err
	case fence.Phase == meta.ImportAbort:
		return w.abortImport(ctx, p, im)
	case fence.Phase == "" && fence.Since != 0:
		return w.endImport(ctx, p, im, fence)
	case fence.Phase == "" && im.Aborts():
		im.Aborted()
		w.tally.add(importAborted)
		return nil
	}
	im.Begin(p.name, plan)
	if err := im.Run(ctx, p.client, w.paceOfImport(p)); !errors.Is(err, admin.ErrNotEmpty) {
		return err
	}
	im.InUse()
	im.Empty(ctx, w.work.NewSession(p.client, p.name, p.Dead, rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64()))))
	return nil
}

// fenceOf is the fence of a table; one without a phase if there is none.
func fenceOf(ctx context.Context, p *process, im *workload.Import) (meta.Import, error) {
	m, err := p.client.Engine().Meta.Refresh(ctx)
	return m.Imports[im.Table], err
}

// endImport takes note of the end, and has the observers told who were not.
func (w *world) endImport(ctx context.Context, p *process, im *workload.Import, fence meta.Import) error {
	im.End(fence.Start, fence.Commit, fence.Since)
	if column, observer, ok := im.Fill(); ok {
		if _, err := admin.New(p.client).BackfillObserver(ctx, im.Table, column, observer, admin.ObserverOptions{RowsPerPage: 16}); err != nil {
			return err
		}
	}
	im.Done()
	w.note("%s: %s is imported: %+v", p.name, im.Table, fence)
	w.tally.add(imported)
	return nil
}

// paceOfImport has rows come while sessions are at work, a few at a time. Now and then the importer
// dies of it.
func (w *world) paceOfImport(p *process) func(context.Context, int) {
	r, begun := w.dice.next("rows", p.name), false
	meeting := r.IntN(importMeets)
	rest := r.IntN(4) > 0 // with the sessions
	return func(ctx context.Context, row int) {
		if !begun && w.cfg.intensity > 0 && !w.calm.Load() && r.IntN(2) == 0 {
			w.killSoon(p, time.Duration(r.Int64N(int64(importerLives))))
		}
		begun = true
		if row == meeting {
			w.awaitCopies(ctx)
		}
		if rest {
			_ = w.lull.wait(ctx)
		}
		if row%8 == 0 {
			_ = retry.Sleep(ctx, time.Duration(r.Int64N(int64(rowsEvery))))
		}
	}
}

// importerLives is how long an importer lives, at most, that dies of what it does, and rowsEvery
// bounds the time between some rows and the next.
const (
	importMeets   = 100 // the row, exclusively, before which it awaits copies
	importerLives = 500 * time.Millisecond
	rowsEvery     = 40 * time.Millisecond
)

// abortImports aborts imports that are to be aborted, while their rows are being written.
func (w *world) abortImports(p *process) {
	for retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(300*time.Millisecond)))) == nil {
		im := w.work.NextImport()
		if im == nil {
			<-p.ctx.Done()
			return
		}
		if !im.IsToAbort() {
			continue
		}
		w.awaitCopies(p.ctx)
		if err := w.abortImport(p.ctx, p, im); err != nil {
			w.note("%s: aborting the import into %s: %v", p.name, im.Table, err)
		}
	}
}

// abortImport aborts an import.
func (w *world) abortImport(ctx context.Context, p *process, im *workload.Import) error {
	fence, err := fenceOf(ctx, p, im)
	if err != nil || fence.Phase != meta.ImportLoad && fence.Phase != meta.ImportAbort {
		return err
	}
	if w.cfg.intensity > 0 && !w.calm.Load() && p.rand.IntN(3) == 0 {
		w.killSoon(p, time.Duration(p.rand.Int64N(int64(importerLives))))
	}
	im.Abort()
	_, err = loader.AbortImport(ctx, p.client, im.Table, nil, nil)
	return err
}

// finishImport ends the import that is under way. A table that is in use has to be emptied, which
// takes a collection.
func (w *world) finishImport(ctx context.Context, p *process) {
	im := w.work.NextImport()
	if im == nil || !im.Begun() {
		return
	}
	plain := func(string) workload.Plan { return workload.Plan{} }
	var err error
	for range importTries {
		err = w.importOnce(ctx, p, im, plain) // again after a slow disk
		if next := w.work.NextImport(); next != im {
			return
		}
		if err == nil && im.Pending() {
			w.collectFor(ctx, p)
		}
	}
	w.problem("the import into %s does not end after the last fault: %v", im.Table, err)
}

// importTries bounds the steps of finishImport.
const importTries = 8

// collectFor has everything collected that is deleted by now. A sweep finds the markers to which no
// entry leads (J8).
func (w *world) collectFor(ctx context.Context, p *process) {
	w.comeToRest(ctx, p)
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
	collect := func() error {
		w.advance(ctx, p, w.longAfter())
		_, err := collector.Collect(ctx)
		return err
	}
	sweep := func() error {
		w.advance(ctx, p, 2*time.Hour) // what is left is old work
		_, err := sweeper.Sweep(ctx)
		return err
	}
	for _, step := range []func() error{collect, sweep, collect} {
		if err := step(); err != nil { // by a slow disk; the caller tries again
			w.note("%s: before an import: %v", p.name, err)
		}
	}
}
