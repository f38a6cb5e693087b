package simulation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/admin"
)

// growth is how far operators have come who make the schema grow. It outlives them.
type growth struct {
	mu       sync.Mutex
	begun    workload.Growth // an operator has tried, and the schema may have it
	finished workload.Growth
	steps    []workload.Growth // in the order of this episode
}

// grow makes the schema grow step by step, beside everything else.
func (w *world) grow(p *process) {
	for p.ctx.Err() == nil {
		_ = retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(2*time.Second))))
		step := w.growth.begin(w.dice)
		if step == 0 {
			<-p.ctx.Done()
			return
		}
		if err := w.growBy(p.ctx, p, step); err != nil {
			w.note("%s: %v: %v", p.name, step, err)
		}
	}
}

// begin is the step that is under way, or the next one; 0: there is none left.
func (g *growth) begin(d *dice) workload.Growth {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.steps == nil {
		r := d.next("growth")
		for _, i := range r.Perm(len(workload.Grows)) {
			g.steps = append(g.steps, workload.Grows[i])
		}
	}
	for _, step := range g.steps {
		if g.finished&step == 0 {
			g.begun |= step
			return step
		}
	}
	return 0
}

// growBy applies the schema of a step, and fills in what is older than it. A step that was begun
// can be taken again.
func (w *world) growBy(ctx context.Context, p *process, step workload.Growth) error {
	if err := w.addToSchema(ctx, p, step.Grow); err != nil {
		return err
	}
	if err := w.fill(ctx, p, step); err != nil {
		return fmt.Errorf("filling: %w", err)
	}
	w.growth.mu.Lock()
	w.growth.finished |= step
	w.growth.mu.Unlock()
	w.work.Grew(step)
	w.note("%s: %v is finished", p.name, step)
	w.tally.add(grown)
	return nil
}

// fill is the backfill of an index, or that of an observer: which begins when every client
// notifies.
func (w *world) fill(ctx context.Context, p *process, step workload.Growth) error {
	a := admin.New(p.client)
	if table, name, ok := step.Index(); ok {
		_, err := a.BackfillIndex(ctx, table, name, admin.BackfillOptions{RowsPerTransaction: 3, Concurrency: 2, SaveEvery: 1})
		return err
	}
	if err := retry.Sleep(ctx, catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing))); err != nil {
		return err
	}
	table, column, observer := step.Observer()
	_, err := a.BackfillObserver(ctx, table, column, observer, admin.ObserverOptions{RowsPerPage: 3})
	return err
}

// finishGrowth ends the step that is under way.
func (w *world) finishGrowth(ctx context.Context, p *process) {
	w.growth.mu.Lock()
	step := w.growth.begun &^ w.growth.finished
	w.growth.mu.Unlock()
	if step == 0 {
		return
	}
	if err := w.growBy(ctx, p, step); err != nil {
		w.problem("the schema does not grow by %v after the last fault: %v", step, err)
	}
}
