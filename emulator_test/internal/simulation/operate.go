package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator/model"
)

// operate has parked cells run again now and then, forgets that they are parked, or abandons the
// change. Now and then the process dies of it.
func (w *world) operate(p *process) {
	p.work.Go(func() { w.limitPasses(p, w.dice.next("passes", p.name)) })
	for retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(operateEvery)))) == nil {
		for parked, err := range observers.ListParked(p.ctx, p.client) {
			if err != nil {
				break
			}
			action := p.rand.IntN(5)
			if action > 3 {
				continue
			}
			if w.cfg.intensity > 0 && p.rand.IntN(4) == 0 && !w.calm.Load() {
				w.killSoon(p, time.Duration(p.rand.Int64N(int64(operatorLives))))
			}
			if action == 0 && w.work.Spares(parked) {
				w.tally.add(dropped)
				_ = observers.Drop(p.ctx, p.client, parked)
				continue
			}
			if action == 3 { // as everything of an observer is that is forgotten
				s := model.ObserverState{Cell: parked.Cell, Observer: parked.Observer, Through: parked.Through}
				_ = p.client.Engine().Commits.ClearObserverState(p.ctx, s)
				continue
			}
			_ = observers.Retry(p.ctx, p.client, parked)
		}
	}
}

// dieOfNotifying has an operator die now and then of what it changes about notifications and what
// is parked, before it hears that this was applied.
func (w *world) dieOfNotifying(process, table string, changes []store.Change) {
	if w.cfg.intensity == 0 || w.calm.Load() || !strings.HasPrefix(process, operator) || table == model.JournalTable {
		return
	}
	about := func(c store.Change) bool { return c.Family == layout.NotifyFamily }
	if slices.ContainsFunc(changes, about) && w.dice.next("notifying", process).IntN(dyingOperators) == 0 {
		w.killAtOnce(process)
	}
}

// operator begins the name of the process that deals with what is parked; one in so many of its
// changes kills it.
const (
	operator       = "operator"
	dyingOperators = 2
)

// limitPasses gives passes a time to live, column by column, and puts there at once, before all
// clients know.
func (w *world) limitPasses(p *process, r *rand.Rand) {
	s := w.work.NewSession(p.client, p.name, p.Dead, r)
	for retry.Sleep(p.ctx, time.Duration(r.Int64N(int64(passesEvery)))) == nil && w.lull.wait(p.ctx) == nil {
		column, ok := w.work.NextPasses()
		if !ok {
			return
		}
		limit := func(s *model.Schema) { workload.LimitPasses(s, column, w.cfg.Retention/2) }
		err := w.addToSchema(p.ctx, p, limit)
		if err == nil {
			_, err = p.client.Engine().Meta.Refresh(p.ctx)
		}
		if err != nil {
			w.note("%s: the time to live of passes: %v", p.name, err)
			continue
		}
		s.IssuePasses(p.ctx, column)
	}
}

// passesEvery bounds how long an operator waits before it gives passes a time to live.
const passesEvery = 2 * time.Second

// operateEvery bounds how long an operator waits before it looks at what is parked.
const operateEvery = 4 * time.Second

// operatorLives is how long an operator lives, at most, that dies of what it does: some requests.
const operatorLives = 8 * time.Millisecond

// retryAll has everything that is parked run again, and returns how much that was.
func (w *world) retryAll(ctx context.Context, p *process) (n int) {
	for parked, err := range observers.ListParked(ctx, p.client) {
		if err == nil {
			n++
			err = observers.Retry(ctx, p.client, parked)
		}
		if err != nil {
			w.problem("what is parked: %v", err)
			return n
		}
	}
	return n
}
