package observers

import (
	"context"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/internal/engine/settle"
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
			// The client learns of a change at this interval.
			if model.Sleep(ctx, model.RefreshInterval(w.engine.Store.Timing)) != nil {
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
		case <-w.queue.missed:
			w.engine.Journal.Own.Hurry()
		}
	}
}

// adopt adopts the streams of clients that died, until ctx ends.
func (w *Worker) adopt(ctx context.Context) {
	seen := w.backlog.newRound()
	defer seen.leave()
	var parked int
	var counted time.Time
	var a *settle.Adopter
	a = settle.NewAdopter(w.engine.Looker, w.engine.Journal, func(left settle.Backlog, mine bool) {
		a.Watch.Store(w.deaf.Load())
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
	a.Watch.Store(w.deaf.Load())
	a.Run(ctx)
}

// countParkedEvery is how often the worker that adopts counts what is parked.
const countParkedEvery = 10 * time.Second

// ageOf is how long what an adopter has found has been waiting, as far as the client can tell.
func (w *Worker) ageOf(left settle.Backlog) (m met) {
	now, knows := w.engine.Clock.EstimatedTime()
	if knows && left.Notified != 0 {
		m.any = now.Sub(left.Notified)
	}
	if knows && left.Taken != 0 {
		m.notification = now.Sub(left.Taken)
	}
	if knows && left.Expired != 0 {
		m.lock = max(0, now.Sub(left.Expired))
	}
	return m
}

// behind is how far behind the work is: what scanners and adopter have met, what this process's own
// client has notified and that are unprocessed, and what looks at its entries, those that it has
// taken over from the dead among them, have found.
func (w *Worker) behind() met {
	m := w.backlog.seen()
	if w.engine.Meta.Journaled() {
		own := w.engine.Journal.Own.Unsettled()
		oldest, taken := w.engine.Journal.Own.OldestNotified(w.takes)
		m = m.max(w.ageOf(settle.Backlog{Notified: oldest, Taken: taken}))
		m = m.max(w.ageOf(settle.Backlog{Notified: own.Notified, Taken: own.Taken, Expired: own.Expired}))
	}
	m.any = max(m.any, m.notification) // scanners meet only what they take
	return m
}

// found hears of what looks at the journal's entries find. It waits while the queue is full.
func (w *Worker) found() settle.Found {
	asOf := w.queue.asOf()
	return func(ctx context.Context, row layout.Pending, n model.Notification, sight settle.Sight) (taken bool) {
		states := &storedStates{asOf, w.statesOf(row)[n.Cell.Column]}
		young := (sight.Elsewhere || w.owner(n) != "") && w.young(n, sight.Age)
		v := w.offerFound(ctx, n, states, young)
		for v == full && w.queue.awaitRoom(ctx) {
			v = w.offerFound(ctx, n, states, young)
		}
		if v == elsewhere && !sight.Elsewhere {
			w.pass(n) // no one else tells the owner
		}
		return v != foreign && v != refused && v != full
	}
}

// surveyed is a survey by the journal in place of a sweep over the tables: what it finds is queued
// here, or counted as left for others.
func (w *Worker) surveyed(ctx context.Context) (left remains, s *settle.Survey, err error) {
	if err := w.flush(ctx); err != nil {
		return left, nil, err
	}
	asOf := w.queue.asOf()
	s, err = w.engine.Looker.Survey(ctx, func(row layout.Pending) { w.count(ctx, []layout.Pending{row}, asOf, &left) })
	return left, s, err
}
