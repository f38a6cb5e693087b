package observers

import (
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gopercolator/percolator/tso"
)

const (
	// ancestorsRemembered bounds the runs that a worker remembers as causes, and those of loops
	// besides, which healthy runs would displace while a loop pauses.
	ancestorsRemembered = 16384
	// generations is how many runs a loop may have in a circle to be seen.
	generations = 16
)

// lineage knows which run caused which: a notification carries the commit timestamp of the
// transaction that wrote it, and that may have been a run of this worker.
type lineage struct {
	mu            sync.Mutex
	runs, looping *simplelru.LRU[tso.Timestamp, ancestor] // by commit timestamp; looping: with a cell at maxLaps
}

// ancestor is a run that has committed, and may have caused others.
type ancestor struct {
	runner *runner
	cause  tso.Timestamp // the commit timestamp of the newest change that it ran for
	laps   []lap         // of its cells, in row order
}

// lap is a cell of a run, and how many runs of the same observer for the same cell led to this one,
// each through runs that the one before caused.
type lap struct {
	row  string
	runs int
}

func newLineage() *lineage {
	return &lineage{runs: newLRU[tso.Timestamp, ancestor](ancestorsRemembered), looping: newLRU[tso.Timestamp, ancestor](ancestorsRemembered)}
}

// note remembers a run for changes, in row order, which committed at ts, perhaps with other runs of
// its observer, and notifies cells, and returns the laps of its cells.
func (l *lineage) note(rn *runner, changes []Change, ts tso.Timestamp) []lap {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := ancestor{runner: rn, laps: make([]lap, len(changes))}
	most := 0
	for i, ch := range changes {
		a.cause = max(a.cause, ch.CommitTS)
		a.laps[i] = lap{ch.Cell.Row, l.runsBefore(rn, ch)}
		most = max(most, a.laps[i].runs)
	}
	laps := a.laps
	for _, known := range []*simplelru.LRU[tso.Timestamp, ancestor]{l.runs, l.looping} {
		if with, ok := known.Get(ts); ok && with.runner == rn {
			a.cause, a.laps = max(a.cause, with.cause), slices.Concat(a.laps, with.laps)
			slices.SortFunc(a.laps, func(a, b lap) int { return strings.Compare(a.row, b.row) })
		}
	}
	if most >= maxLaps {
		l.looping.Add(ts, a)
	} else {
		l.runs.Add(ts, a)
	}
	return laps
}

// runsBefore looks for the last run for the cell of a change among those that led to it. A change
// that some other transaction made has none, so a cell that others change often is in no loop.
func (l *lineage) runsBefore(rn *runner, ch Change) int {
	if rn.repeats {
		return 0
	}
	ts := ch.CommitTS
	for range generations {
		a, ok := l.runs.Get(ts)
		if !ok {
			a, ok = l.looping.Get(ts)
		}
		if !ok {
			return 0
		}
		if a.runner == rn {
			if at, found := slices.BinarySearchFunc(a.laps, ch.Cell.Row, lap.compare); found {
				return a.laps[at].runs + 1
			}
		}
		ts = a.cause
	}
	return 0
}

func (l lap) compare(row string) int { return strings.Compare(l.row, row) }
