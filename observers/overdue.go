package observers

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// An attempt whose observer ignores its context holds one of the worker's goroutines, and a slot of
// its observer, until the observer returns: nothing can end it. The worker shows it.

const (
	// overdueGrace is how long after its timeout an attempt that has not returned is overdue.
	overdueGrace = 5 * time.Second
	// overdueLooks is the time between two looks for what has become overdue.
	overdueLooks = 5 * time.Second
)

// inFlight is the attempt that one of the worker's goroutines makes. No attempt has a timer of its
// own: who asks what is overdue looks at all goroutines.
type inFlight struct {
	mu      sync.Mutex
	runner  *runner // nil: none
	row     string  // of its first cell
	cells   int
	started time.Time
	logged  bool // the log says that it is overdue
}

// begin notes that an attempt starts.
func (f *inFlight) begin(r *run, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runner, f.row, f.cells, f.started, f.logged = r.runner, r.attempt[0].entry.row, len(r.attempt), now, false
}

// began is when the attempt started.
func (f *inFlight) began() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started
}

// overdue reports whether an attempt is overdue. f.mu is held.
func (f *inFlight) overdue(now time.Time) bool {
	return f.runner != nil && now.Sub(f.started) >= f.runner.timeout+overdueGrace
}

// overdueRuns counts the overdue attempts of each observer; nil: there are none.
func (w *Worker) overdueRuns() (counts map[*runner]int) {
	now := time.Now()
	for i := range w.inFlight {
		f := &w.inFlight[i]
		f.mu.Lock()
		if f.overdue(now) {
			if counts == nil {
				counts = map[*runner]int{}
			}
			counts[f.runner]++
		}
		f.mu.Unlock()
	}
	return counts
}

// watchOverdue logs each attempt that becomes overdue, until ctx ends.
func (w *Worker) watchOverdue(ctx context.Context) {
	ticker := time.NewTicker(overdueLooks)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		for i := range w.inFlight {
			f := &w.inFlight[i]
			f.mu.Lock()
			if f.overdue(now) && !f.logged {
				f.logged = true
				w.logOverdue("observers: an observer ignores its context: its run has not returned after its timeout, and holds a slot until it does", f, now)
			}
			f.mu.Unlock()
		}
	}
}

// endInFlight notes that the attempt of a goroutine has ended.
func (w *Worker) endInFlight(f *inFlight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.logged {
		w.logOverdue("observers: a run that was overdue has returned", f, time.Now())
	}
	f.runner, f.row, f.logged = nil, "", false
}

// logOverdue logs what f says. f.mu is held.
func (w *Worker) logOverdue(what string, f *inFlight, now time.Time) {
	o := f.runner.observer
	fields := []any{"observer", o.name, "table", o.table, "column", o.column, "cells", f.cells, "timeout", o.timeout, "for", now.Sub(f.started)}
	w.log.Warn(what, append(fields[:len(fields):len(fields)], "look", "the log at debug level names the row")...)
	w.log.Debug(what, append(fields, "row", f.row)...)
}

// observersInFlight names the observers that run.
func (w *Worker) observersInFlight() []string {
	names := map[string]bool{}
	for i := range w.inFlight {
		f := &w.inFlight[i]
		f.mu.Lock()
		if f.runner != nil {
			names[f.runner.name] = true
		}
		f.mu.Unlock()
	}
	return slices.Sorted(maps.Keys(names))
}
