package observers

import (
	"context"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/percolator/model"
)

// find looks for work until ctx ends: by the journal where the instance has one, by scanning the
// tables where it has none, or one that is being built. It follows a change of that while it runs.
func (w *Worker) find(ctx context.Context, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		journaled, complete := w.engine.Meta.Journaled(), w.engine.Meta.ByJournal()
		within, end := context.WithCancel(ctx)
		var finders sync.WaitGroup
		if journaled {
			remove := w.engine.Looker.HandleFound(w.found, w.takes)
			context.AfterFunc(within, remove)
			finders.Go(func() { w.adopt(within) })
			finders.Go(func() { w.lookForMissed(within) })
		}
		if !complete {
			for range w.cfg.Scanners {
				finders.Go(func() { newScanner(w).run(within, stop) })
			}
		}
		for w.engine.Meta.Journaled() == journaled && w.engine.Meta.ByJournal() == complete {
			if err := w.engine.Meta.Replaced(); err != nil {
				stop(err)
				break
			}
			// The client learns of a change at this interval.
			if retry.Sleep(ctx, catalog.RefreshInterval(w.engine.Store.Timing)) != nil {
				break
			}
		}
		end()
		finders.Wait()
	}
}

// lookForMissed has this client look at its own notifications again when there is room for those
// that were dropped.
func (w *Worker) lookForMissed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.queue.room.missed:
			w.engine.Journal.Own.Hurry()
		}
	}
}

// adopt adopts the streams of clients that died, until ctx ends.
func (w *Worker) adopt(ctx context.Context) {
	seen := w.lag.newPass()
	defer seen.leave()
	var parked int
	var counted time.Time
	var a *settle.Adopter
	a = settle.NewAdopter(w.engine.Looker, w.engine.Journal, func(left settle.Backlog, mine bool) {
		a.Watch.Store(w.unreachable.Load())
		if m := w.ageOf(left); mine {
			if time.Since(counted) > countParkedEvery {
				counted = time.Now()
				if n, err := w.engine.Looker.CountParked(ctx); err == nil {
					parked = n
				}
			}
			m.parked = parked
			seen.replace(m)
		} else {
			seen.replace(met{})
		}
	})
	a.Watch.Store(w.unreachable.Load())
	a.Run(ctx)
}

// countParkedEvery is how often the worker that adopts counts what is parked.
const countParkedEvery = 10 * time.Second

// found hears of what looks at the journal's entries find. It waits while the queue is full.
func (w *Worker) found() settle.Found {
	asOf := w.queue.asOf()
	return func(ctx context.Context, row model.Pending, n model.Notification, sight settle.Sight) (taken bool) {
		states := &storedStates{asOf, w.statesOf(row)[n.Cell.Column]}
		from := fromSearch
		if sight.Elsewhere || w.owner(n) != "" { // not what a client that died has left behind
			from = w.metBy(n, sight.Age)
		}
		v := w.enqueueFound(ctx, n, states, from)
		for v == full && w.queue.awaitRoom(ctx) {
			v = w.enqueueFound(ctx, n, states, from)
		}
		if v == elsewhere && !sight.Elsewhere {
			w.pass(n) // no one else tells the owner
		}
		return v != foreign && v != refused && v != full && v != crowded
	}
}
