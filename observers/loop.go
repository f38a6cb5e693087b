package observers

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// An observer that writes what it observes, or two that write what the other one observes, cause
// their own runs without end. Nothing fails, so nothing else would end or show it. The worker says
// so and slows such a cell down; it does not park it, because the work may have an end after all.

const (
	// maxLaps is from how many runs of an observer for a cell, each of which led to the next one,
	// a worker takes them for a loop.
	maxLaps = 1000
	// noticedLaps is from how many of them on the queue remembers a cell, for NotIdleError.
	noticedLaps = 10
	// loopsRemembered bounds the cells and observers with so many.
	loopsRemembered = 8192
	// loopWarnings is the least time between two warnings about one observer's loops.
	loopWarnings = 10 * time.Second
)

// Repeats is for an observer that divides long work among runs: each handles a part, and notifies
// its own cell while more is left. Of any other observer a worker takes 1,000 such runs in a row
// for a loop, and slows the cell down ([Registry.Observe]).
func Repeats() Option { return func(o *options) { o.repeats = true } }

// loopKey is a cell and one of its observers.
type loopKey struct {
	runner *runner
	row    string
}

// loop is how often an observer's runs for a cell have led to each other, and until when the next
// one waits.
type loop struct {
	runs  int
	until time.Time
}

// loops are the cells whose runs cause each other. queue.mu guards them.
type loops struct{ *simplelru.LRU[loopKey, loop] }

// followLoops is called when a run for changes has committed at ts, before its jobs finish.
func (w *Worker) followLoops(rn *runner, changes []Change, ts tso.Timestamp, notifies bool) {
	var laps []lap
	if notifies {
		laps = w.lineage.note(rn, changes, ts)
	}
	w.queue.pace(rn, changes, laps)
	for i, l := range laps {
		if l.runs < maxLaps || l.runs%maxLaps != 0 {
			continue
		}
		c := changes[i].Cell
		if l.runs == maxLaps && w.engine.Loops != nil {
			w.engine.Loops.Report(rn.name, c, l.runs)
		}
		if bits.OnesCount(uint(l.runs/maxLaps)) == 1 {
			w.warnOfLoop(rn, c, l.runs)
		}
	}
}

// warnOfLoop is called at each doubling of the runs of a loop. Of the loops of one observer, which
// may be many, it names one at a time.
func (w *Worker) warnOfLoop(rn *runner, c percolator.Cell, runs int) {
	now := time.Now().UnixNano()
	if last := rn.warnedOfLoop.Load(); last != 0 && now-last < int64(loopWarnings) || !rn.warnedOfLoop.CompareAndSwap(last, now) {
		return
	}
	fields := []any{"observer", rn.name, "table", rn.table, "column", rn.column, "runs", runs}
	w.log.Warn("observers: runs of an observer cause its own next runs for the same cell, which is slowed down", append(fields[:len(fields):len(fields)], "look", "the log at debug level names the row")...)
	w.log.Debug("observers: runs of an observer cause its own next runs for the same cell", append(fields, "row", c.Row)...)
}

// pace remembers how often runs for cells have led to each other, and slows down those in a loop.
// laps is nil if the run can have led to nothing.
func (q *queue) pace(rn *runner, changes []Change, laps []lap) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, ch := range changes {
		key := loopKey{rn, ch.Cell.Row}
		switch {
		case laps != nil && laps[i].runs >= maxLaps:
			q.loops.Add(key, loop{laps[i].runs, time.Now().Add(q.pauses.failure.pause(laps[i].runs / maxLaps))})
		case laps != nil && laps[i].runs >= noticedLaps:
			q.loops.Add(key, loop{runs: laps[i].runs})
		case q.loops.Len() > 0:
			q.loops.Remove(key)
		}
	}
}

// slowDown has the tasks of e that are in a loop wait.
func (q *queue) slowDown(e *entry) {
	if q.loops.Len() == 0 {
		return
	}
	for i := range e.tasks {
		t := &e.tasks[i]
		if l, ok := q.loops.Peek(loopKey{e.column.runners[i], e.row}); ok && e.pending(t) && t.due.Before(l.until) {
			t.due = l.until
		}
	}
}

// unfinished lists some cells that the queue holds, those first whose runs cause each other.
func (q *queue) unfinished() (list []UnfinishedCell) {
	q.mu.Lock()
	defer q.mu.Unlock()
	listed := map[cellKey]bool{}
	for _, key := range q.loops.Keys() {
		e := key.runner.of.cells[key.row]
		if l, ok := q.loops.Peek(key); ok && e != nil {
			listed[cellKey{e.column, e.row}] = true
			list = append(list, UnfinishedCell{e.column.cell(e.row), key.runner.name, l.runs})
		}
	}
	slices.SortStableFunc(list, func(a, b UnfinishedCell) int { return cmp.Compare(b.Runs, a.Runs) })
	for _, rn := range q.runners {
		for row, e := range rn.of.cells {
			if len(list) >= unfinishedListed {
				return list[:unfinishedListed]
			}
			if key := (cellKey{e.column, row}); !listed[key] {
				listed[key] = true
				list = append(list, UnfinishedCell{Cell: e.column.cell(row)})
			}
		}
	}
	return list[:min(len(list), unfinishedListed)]
}
