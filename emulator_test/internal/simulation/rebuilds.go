package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// rebuildIndex drops the index of cards and builds it anew, again and again. It begins with the
// drop, wherever a process that died has come to.
func (w *world) rebuildIndex(p *process) {
	every, held := rebuildEvery, dropEvery
	for retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(every)))) == nil {
		err := w.rebuild(p.ctx, p)
		if errors.Is(err, admin.ErrHeld) { // by holds, some of which last for long
			w.work.WaitForCards()
			every, held = held, min(held+held/4, rebuildEvery/4)
			continue
		}
		if every, held = rebuildEvery, dropEvery; err == nil || p.ctx.Err() != nil {
			continue
		}
		w.note("%s: %v", p.name, err)
		if w.cfg.intensity == 0 {
			w.problem("%s: %v", p.name, err)
			return
		}
	}
}

const (
	rebuildEvery = 2 * time.Second // bounds how long an operator waits before it drops the index
	restLooks    = time.Second     // it looks so often whether the name has rested
)

func (w *world) rebuild(ctx context.Context, p *process) error {
	if err := w.dropCardIndex(ctx, p); err != nil {
		return fmt.Errorf("dropping the index of cards: %w", err)
	}
	table, name := workload.CardIndex()
	m, err := p.client.Engine().Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	dropped := m.Dropped[catalog.IndexTable(table, percolator.Index{Name: name})].At
	for err := w.addToSchema(ctx, p, workload.IndexCards); err != nil; err = w.addToSchema(ctx, p, workload.IndexCards) {
		if !errors.Is(err, percolator.ErrSchemaMismatch) {
			return err
		}
		w.restCards()
		if err := retry.Sleep(ctx, restLooks); err != nil {
			return err
		}
	}
	if m, err = p.client.Engine().Meta.Refresh(ctx); err == nil && dropped > m.Safepoint {
		w.problem("the index of cards comes back, although it was dropped at %d, and the safepoint is %d (I26)", dropped, m.Safepoint)
	}
	tried := w.dropWhileFilled(ctx, p)
	_, err = admin.New(p.client).BackfillIndex(ctx, table, name, admin.BackfillOptions{RowsPerTransaction: 16, SaveEvery: 1})
	if <-tried {
		return nil
	}
	if err != nil {
		return fmt.Errorf("filling the index of cards: %w", err)
	}
	w.note("%s: the index of cards is built anew", p.name)
	w.rebuilds.Add(1)
	w.tally.add(rebuilt)
	return nil
}

// restCards makes a lull, a few times in an episode, for the name of the index to rest: else that
// takes half of the episode.
func (w *world) restCards() {
	if w.lull.length() > 0 || w.calm.Load() || w.rests.Add(1) > restsMost {
		return
	}
	w.lull.begin(2 * catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing)))
	w.oracle.pass(w.cfg.Retention)
}

const restsMost = 4

// dropWhileFilled has another operator drop the index now and then while it is being filled in. The
// result tells, at the end of that, whether somebody tried.
func (w *world) dropWhileFilled(ctx context.Context, p *process) <-chan bool {
	tried := make(chan bool, 1)
	if p.rand.IntN(2) > 0 || w.calm.Load() {
		tried <- false
		return tried
	}
	wait := time.Duration(p.rand.Int64N(int64(catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing)) + fillTakes)))
	p.work.Go(func() {
		err := retry.Sleep(ctx, wait)
		if err == nil {
			err = w.dropCardIndex(ctx, p)
		}
		w.note("%s: the index of cards is dropped while it is filled in: %v", p.name, err)
		tried <- true
	})
	return tried
}

// fillTakes is about how long an index takes to be filled in, without the drain before.
const fillTakes = 2 * time.Second

// afterRebuild is work that takes holds, which are in the way of drops. In some episodes it begins
// only after a rebuild, or when half of the transactions are made.
func (w *world) afterRebuild(work func(*process)) func(*process) {
	return func(p *process) {
		for w.cfg.rebuildsFirst && w.rebuilds.Load() == 0 && w.history.Len() < w.cfg.Transactions/2 {
			if retry.Sleep(p.ctx, rebuildEvery/10) != nil {
				return
			}
		}
		work(p)
	}
}

// dropCardIndex drops the index, or goes on with that. Others may change the schema again when its
// own change is stored. Now and then the operator dies in one of the steps.
func (w *world) dropCardIndex(ctx context.Context, p *process) error {
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
	workload.WithoutCards(schema)
	defer w.work.LeaveCards()
	opts := admin.DropOptions{RowsPerSecond: 1_000_000, DeleteTable: w.deleterOf(p), Progress: func(phase admin.DropPhase) {
		w.work.DropCards()
		if phase == admin.DropClose {
			w.sleepThrough(p)
		} else {
			end()
		}
		if w.cfg.intensity > 0 && !w.calm.Load() && p.rand.IntN(8) == 0 {
			w.killSoon(p, time.Duration(p.rand.Int64N(int64(operatorLives))))
		}
	}}
	_, err = admin.New(p.client).DropFromSchema(ctx, schema, opts)
	return err
}

// sleepThrough stops some clients when an index was closed, and cuts others off from the meta row,
// so that they go on when nobody maintains it any more, until its table is deleted: they must not
// go by what they knew.
func (w *world) sleepThrough(p *process) {
	if w.calm.Load() {
		return
	}
	timing := catalog.EffectiveTiming(w.cfg.Timing)
	drain := catalog.DrainTime(timing)
	for _, sl := range w.slots {
		if !strings.HasPrefix(sl.name, "client") {
			continue
		}
		switch d := drain + time.Duration(p.rand.Int64N(int64(drain+timing.MetaMaxAge))); p.rand.IntN(4) {
		case 0:
			w.suspendFor(sl.ctx, sl.running(), simulated.Stopped, processStopped, d)
		case 1, 2:
			w.cutFromMeta(sl, d)
		}
	}
}

// cutFromMeta has a process not read the meta row for a while.
func (w *world) cutFromMeta(sl *slot, d time.Duration) {
	p := sl.running()
	if p == nil || w.cfg.intensity == 0 || !w.tally.add(metaCutOff) {
		return
	}
	join := p.store.CutOff(model.MetaTable)
	w.ending.Go(func() {
		_ = retry.Sleep(sl.ctx, d)
		join()
	})
}

// finishRebuild ends the drop that is under way, when the holds have expired that others have left.
func (w *world) finishRebuild(ctx context.Context, p *process) {
	m, err := p.client.Engine().Meta.Refresh(ctx)
	if err != nil {
		w.problem("the index of cards: %v", err)
		return
	}
	table, name := workload.CardIndex()
	if found, err := p.client.Engine().Meta.FindIndex(table, name); len(m.Stored().Dropping) == 0 && (err != nil || !found.State.Building) {
		return // it is there, or is not
	}
	for range dropTries {
		if err = w.dropCardIndex(ctx, p); err == nil {
			return
		}
		if errors.Is(err, admin.ErrHeld) {
			w.advance(ctx, p, 2*w.backupHold())
		}
	}
	w.problem("the index of cards is not dropped after the last fault: %v", err)
}
