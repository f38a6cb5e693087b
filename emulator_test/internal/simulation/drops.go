package simulation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// dropAnnexes drops one table or column after the other, and goes on with the drop of a process
// that died.
func (w *world) dropAnnexes(p *process) {
	for p.ctx.Err() == nil {
		w.bringBack(p)
		d := w.work.NextDrop()
		if d == nil {
			<-p.ctx.Done()
			return
		}
		_ = w.lull.wait(p.ctx) // there are transactions under way then
		d.Soon()
		w.abandonDeletion(p, d)
		_ = retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(dropEvery))))
		err := w.drop(p.ctx, p, d)
		if err == nil || p.ctx.Err() != nil {
			continue
		}
		if errors.Is(err, admin.ErrHeld) { // by holds
			d.Wait()
			continue
		}
		w.note("%s: %s: %v", p.name, d, err)
		if w.cfg.intensity == 0 {
			w.problem("%s: %s: %v", p.name, d, err)
			return
		}
	}
}

// dropEvery bounds how long an operator waits before it tries to drop something.
const dropEvery = 100 * time.Millisecond

// drop drops a table or a column. Others may change the schema again when its own change is stored.
// In each of its steps the operator dies now and then.
func (w *world) drop(ctx context.Context, p *process, d *workload.Drop) error {
	end, err := w.operators.alone(ctx)
	if err != nil {
		return err
	}
	end = sync.OnceFunc(end)
	defer end()
	schema, err := storedSchema(ctx, p)
	if err != nil {
		return err
	}
	d.From(schema)
	opts := admin.DropOptions{RowsPerSecond: 1_000_000, DeleteTable: w.deleterOf(p)}
	if d.Column != "" && !w.calm.Load() {
		w.dropLate(ctx, p, d, schema, opts)
	}
	opts.Progress = func(phase admin.DropPhase) {
		d.Begin()
		if phase != admin.DropClose {
			end()
		}
		if w.cfg.intensity == 0 || w.calm.Load() {
			return
		}
		if p.rand.IntN(3) == 0 {
			w.killSoon(p, time.Duration(p.rand.Int64N(int64(operatorLives))))
		}
	}
	if _, err := admin.New(p.client).DropFromSchema(ctx, schema, opts); err != nil {
		return err
	}
	d.End()
	w.note("%s: %s is dropped", p.name, d)
	w.tally.add(tableDropped)
	return nil
}

// dropLate calls for a drop of a column, and returns when that has begun. The call is held up until
// the column has come back, and must leave it alone then.
func (w *world) dropLate(ctx context.Context, p *process, d *workload.Drop, schema *percolator.Schema, opts admin.DropOptions) {
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	opts.Progress = func(admin.DropPhase) {
		d.Begin()
		begin()
	}
	opts.Wait = func(ctx context.Context, drain time.Duration) error {
		for used := false; !used; _, used = d.Back() {
			if err := retry.Sleep(ctx, drain); err != nil {
				return err
			}
			drain = min(drain, lateLooks)
		}
		return nil
	}
	p.work.Go(func() {
		defer begin()
		_, err := admin.New(p.client).DropFromSchema(ctx, schema, opts)
		w.note("%s: the late drop of %s: %v", p.name, d, err)
		if err != nil && p.ctx.Err() == nil && w.cfg.intensity == 0 {
			w.problem("%s: the late drop of %s: %v", p.name, d, err)
		}
	})
	<-begun
}

// lateLooks is how often the late call looks, at least, whether the column is used anew.
const lateLooks = time.Second

// abandonDeletion now and then deletes what a column holds, in a call that ends in the middle of
// that: so that the drop finds an earlier deletion.
func (w *world) abandonDeletion(p *process, d *workload.Drop) {
	if d.Column == "" || !d.Pending() || p.rand.IntN(2) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	_, _ = admin.New(p.client).DeleteRange(ctx, d.Table, percolator.All(), admin.DeleteOptions{
		Columns: []string{d.Column}, RowsPerSecond: 1_000_000, Concurrency: 1, RowsPerTransaction: 2, SaveEvery: 1,
		Progress: func(admin.DeleteProgress) { cancel() },
	})
}

// bringBack declares columns anew that were dropped.
func (w *world) bringBack(p *process) {
	for _, d := range w.work.Dropped() {
		if back, _ := d.Back(); back || d.Column == "" {
			continue
		}
		at, err := p.oracle.Next(p.ctx)
		if err == nil {
			d.ReturnsAfter(at)
			err = w.addToSchema(p.ctx, p, d.Declare)
		}
		if err != nil {
			w.note("%s: %s does not come back: %v", p.name, d, err)
			continue
		}
		d.ComeBack()
		w.note("%s: %s has come back", p.name, d)
	}
}

// perish has a client die whose transaction was just acknowledged: its locks are for the drop to
// resolve, unless others are faster.
func (w *world) perish(process string) {
	if w.cfg.intensity == 0 || w.calm.Load() || w.perished.Add(1) > perishMost {
		return
	}
	w.killAtOnce(process)
}

func (w *world) killAtOnce(process string) {
	for _, sl := range w.slots {
		if p := sl.running(); p != nil && p.name == process && w.tally.add(processKilled) {
			down := time.Duration(p.rand.Int64N(int64(5 * time.Second)))
			sl.kill() // at once: its phase two has not been sent yet
			w.ending.Go(func() { sl.restart(sl.ctx, down) })
		}
	}
}

// perishMost is how many clients perish in an episode, at most.
const perishMost = 12

// deleterOf deletes tables as a process does.
func (w *world) deleterOf(p *process) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		if err := retry.Sleep(ctx, latency(w.dice.next("delete", name), deletionTakes)); err != nil {
			return err
		}
		if err := p.gate.pass(ctx); err != nil {
			return err
		}
		w.cluster.DeleteTable(name)
		return nil
	}
}

// deletionTakes is how long a table takes to be deleted.
const deletionTakes = 100 * time.Millisecond

// finishDrop ends the drop that is under way, when the holds have expired that others have left.
func (w *world) finishDrop(ctx context.Context, p *process) {
	d := w.work.NextDrop()
	if d == nil || d.Pending() {
		return
	}
	var err error
	for range dropTries {
		if err = w.drop(ctx, p, d); err == nil {
			return
		}
		if errors.Is(err, admin.ErrHeld) {
			w.advance(ctx, p, 2*w.backupHold())
		}
	}
	w.problem("%s is not dropped after the last fault: %v", d, err)
}

// dropTries bounds the calls of finishDrop: holds may be in the way, and a slow disk.
const dropTries = 4

// checkDropped looks for what is left of what was dropped.
func (w *world) checkDropped() {
	for _, d := range w.work.Dropped() {
		if d.Column == "" {
			for _, name := range []string{d.Table, d.Table + ".tag"} {
				if w.cluster.Families(name) != nil {
					w.problem("table %s is there although it was dropped", name)
				}
			}
			continue
		}
		err := w.cluster.Visit(d.Table, func(r layout.Row) bool {
			w.checkDroppedCell(d, r)
			return true
		})
		if err != nil {
			w.problem("%v", err)
		}
	}
}

// checkDroppedCell looks for what is left of a column in a row. What was committed since the column
// came back is not, although the transaction may have begun before.
func (w *world) checkDroppedCell(d *workload.Drop, r layout.Row) {
	returned := layout.CellTime(d.Returned())
	since := func(it layout.Item) bool {
		return it.Column == d.Column && it.Family == layout.WriteFamily && returned > 0 && it.Timestamp > returned
	}
	for _, it := range r.Items {
		if it.Column == d.Column && !since(it) && (it.Family != layout.DataFamily || !slices.ContainsFunc(r.Items, since)) {
			w.problem("%s/%q/%q holds %s at %d although the column was dropped", d.Table, r.Key, it.Column, it.Family, it.Timestamp)
		}
	}
}
