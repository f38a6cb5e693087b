package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

// watcher is the consumer of one, by its log, which outlives its processes: how far it has come, as
// far as the history has it. Its name has the instance store the position; without one it goes by
// its own.
type watcher struct {
	name string
	hold time.Duration

	mu       sync.Mutex
	position watch.Position
	begun    bool // a batch came since it began at the position
	others   int  // consumers of other columns that have begun there
}

const watcherName = "consumer"

// newWatcher goes by the seed.
func newWatcher(cfg episode) *watcher {
	r := newDice(cfg.Seed).next("watcher")
	w := &watcher{hold: max(time.Second, cfg.LockTTL*time.Duration(1+r.IntN(4)))}
	if r.IntN(2) == 0 {
		w.name = watcherName
	}
	return w
}

// consumerLives is how long a consumer lives, at most, that dies of a batch.
const consumerLives = 50 * time.Millisecond

// watchInLulls is how often a consumer looks for changes in a lull, at most: hardly anything
// changes for minutes.
const watchInLulls = 300 * time.Millisecond

// watch consumes what changes, and goes on where a process that died had come to.
func (w *world) watch(p *process) {
	for p.ctx.Err() == nil && !w.cfg.turnsJournal {
		if err := w.watchOthers(p); err != nil && p.ctx.Err() == nil {
			w.note("%s: of other columns: %v", p.name, err)
			if w.cfg.intensity == 0 {
				w.problem("%s: of other columns: %v", p.name, err)
			}
		}
		interval, lulled := time.Duration(1+p.rand.Int64N(int64(time.Second))), w.lull.length() > 0
		if lulled {
			interval = max(interval, watchInLulls)
		}
		err := w.consume(p.ctx, p, interval, func(b watch.Batch) bool {
			if interval <= watchInLulls && lulled != (w.lull.length() > 0) {
				return false // and begins again, at another pace
			}
			full := len(b.Changes) == watch.MaxBatchChanges // and may end within a transaction
			if len(b.Changes) == 0 || p.rand.IntN(20) > 0 && !(full && p.rand.IntN(2) == 0) {
				return true
			}
			if w.cfg.intensity > 0 && !w.calm.Load() {
				w.killSoon(p, time.Duration(p.rand.Int64N(int64(consumerLives))))
				return true
			}
			return false // and begins again
		})
		if err != nil && p.ctx.Err() == nil {
			w.note("%s: %v", p.name, err)
			if w.cfg.intensity == 0 {
				w.problem("%s: %v", p.name, err)
			}
			_ = retry.Sleep(p.ctx, time.Second)
		}
	}
}

// Of others there are so many at most, each of which takes so many batches with changes.
const (
	othersMost   = 16
	othersAttend = 3
)

// watchOthers has a consumer of other columns begin where this one has come to, for a while. Of
// what that has passed, it may want some.
func (w *world) watchOthers(p *process) error {
	w.watcher.mu.Lock()
	at := w.watcher.position
	w.watcher.others++
	n := w.watcher.others
	w.watcher.mu.Unlock()
	if at.Timestamp() == 0 || n > othersMost {
		return nil
	}
	name, left := fmt.Sprintf("other %s %d", watcherName, n), othersAttend
	w.history.WatchesFrom(name, workload.AlsoWatched, at.Timestamp())
	for b, err := range watch.Changes(p.ctx, p.client, watch.Config{Columns: columnsToWatch(workload.AlsoWatched), From: at, Interval: 100 * time.Millisecond}) {
		switch {
		case p.Dead() || errors.Is(err, percolator.ErrSnapshotTooOld):
			return nil
		case err != nil:
			return err
		}
		w.history.Watches(name, watchedChanges(b), b.Position.Timestamp())
		if len(b.Changes) > 0 {
			left--
		}
		if left == 0 {
			return nil
		}
	}
	return nil
}

func columnsToWatch(columns []history.Column) (list []watch.Column) {
	for _, c := range columns {
		list = append(list, watch.Column(c))
	}
	return list
}

func watchedChanges(b watch.Batch) (changes []history.WatchedChange) {
	for _, ch := range b.Changes {
		changes = append(changes, history.WatchedChange{Cell: history.Cell(ch.Cell), Value: ch.Value, Start: ch.StartTS, Commit: ch.CommitTS})
	}
	return changes
}

// consume takes batches as long as more says so.
func (w *world) consume(ctx context.Context, p *process, interval time.Duration, more func(watch.Batch) bool) error {
	cfg := watch.Config{Columns: columnsToWatch(workload.Watched), Name: w.watcher.name, HoldTTL: w.watcher.hold, Interval: interval}
	if err := w.beginAt(ctx, p, &cfg); err != nil {
		return err
	}
	for b, err := range watch.Changes(ctx, p.client, cfg) {
		switch {
		case p.Dead():
			return nil
		case errors.Is(err, percolator.ErrCorrupt), errors.Is(err, watch.ErrTakenOver):
			w.problem("%s: %v", p.name, err)
			return err
		case errors.Is(err, percolator.ErrSnapshotTooOld):
			w.note("%s: %v", p.name, err)
			return w.watchAnew(ctx, p)
		case err != nil:
			return err
		}
		w.take(b)
		if !more(b) {
			return nil
		}
	}
	return nil
}

// beginAt says where to begin: where the consumer has come to, which the instance knows if it has a
// name, or now.
func (w *world) beginAt(ctx context.Context, p *process, cfg *watch.Config) error {
	w.watcher.mu.Lock()
	at, begun := w.watcher.position, w.watcher.begun
	w.watcher.mu.Unlock()
	if at.Timestamp() == 0 {
		if err := w.watchAnew(ctx, p); err != nil {
			return err
		}
		return w.beginAt(ctx, p, cfg)
	}
	if cfg.Name == "" {
		cfg.From = at
	} else if !begun {
		cfg.From, cfg.Restart = at, true
	}
	return nil
}

// watchAnew has the consumer begin at present: for the first time, or because it came too late, so
// that what had committed is lost to it.
func (w *world) watchAnew(ctx context.Context, p *process) error {
	now, err := p.oracle.Next(ctx)
	if err != nil {
		return err
	}
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	if w.watcher.position.Timestamp() > 0 {
		w.tally.add(watchedAnew)
	}
	w.watcher.position, w.watcher.begun = watch.At(now), false
	w.history.WatchesFrom(watcherName, workload.Watched, now)
	return nil
}

// take makes sure of a batch.
func (w *world) take(b watch.Batch) {
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	w.watcher.position, w.watcher.begun = b.Position, true
	w.history.Watches(watcherName, watchedChanges(b), b.Position.Timestamp())
}

// finishWatching has the consumer catch up with all that has committed.
func (w *world) finishWatching(ctx context.Context, p *process) {
	if w.cfg.turnsJournal {
		return
	}
	now, err := p.oracle.Next(ctx)
	if err != nil {
		w.problem("%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, watchWithin)
	defer cancel()
	for reached := tso.Timestamp(0); reached < now && err == nil; reached = w.watched() {
		err = errors.Join(ctx.Err(), w.consume(ctx, p, 0, func(b watch.Batch) bool { return b.Position.Timestamp() < now }))
	}
	if err != nil {
		w.problem("the consumer of a watcher does not catch up after the last fault: %v", err)
	}
}

// watchWithin is how long that may take, in virtual time.
const watchWithin = 10 * time.Minute

// watched is how far the consumer has come.
func (w *world) watched() tso.Timestamp {
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	return w.watcher.position.Timestamp()
}
