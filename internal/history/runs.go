package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// Runs judges observers by the changes and the runs that committed, wherever these are known from:
// at most one run for a change, each for the newest change that it could see, and none lost. A
// [Checker] judges the same by what clients saw.
type Runs struct {
	changes map[Cell][]tso.Timestamp
	runs    map[observer][]CommittedRun
}

type observer struct {
	name string
	cell Cell
}

// CommittedRun is a run of an observer for a change of a cell.
type CommittedRun struct {
	Observer              string
	Cell                  Cell
	Change, Start, Commit tso.Timestamp
}

func (r CommittedRun) String() string {
	return fmt.Sprintf("%s for the change of %s at %d (start %d, commit %d)", r.Observer, r.Cell, r.Change, r.Start, r.Commit)
}

// AddChange adds a committed change of an observed cell.
func (r *Runs) AddChange(c Cell, commit tso.Timestamp) {
	if r.changes == nil {
		r.changes = map[Cell][]tso.Timestamp{}
	}
	r.changes[c] = append(r.changes[c], commit)
}

// AddRun adds a run that committed.
func (r *Runs) AddRun(run CommittedRun) {
	if r.runs == nil {
		r.runs = map[observer][]CommittedRun{}
	}
	o := observer{run.Observer, run.Cell}
	r.runs[o] = append(r.runs[o], run)
}

// Check says what is wrong when everything is at rest. observers are the names of those that
// observe a cell.
func (r *Runs) Check(observers func(Cell) []string) []Anomaly {
	var f findings
	for _, c := range sortedCells(r.changes) {
		changes := slices.Sorted(slices.Values(r.changes[c]))
		for _, name := range observers(c) {
			f.checkRuns(c, changes, r.runs[observer{name, c}])
			if runs := r.runs[observer{name, c}]; len(runs) == 0 || runs[len(runs)-1].Start < changes[len(changes)-1] {
				f.add(anomalyUnobserved, "%s has not run for the change of %s at %d", name, c, changes[len(changes)-1])
			}
		}
	}
	for o, runs := range r.runs {
		if len(r.changes[o.cell]) == 0 {
			f.add(anomalyStaleRun, "%s: there is no change", runs[0])
		}
	}
	return f.sorted()
}

func (f *findings) checkRuns(c Cell, changes []tso.Timestamp, runs []CommittedRun) {
	slices.SortFunc(runs, func(a, b CommittedRun) int { return cmp.Compare(a.Start, b.Start) })
	for i, run := range runs {
		n, _ := slices.BinarySearch(changes, run.Start+1)
		switch {
		case n == 0 || changes[n-1] != run.Change:
			f.add(anomalyStaleRun, "%s is not for the newest change of its snapshot", run)
		case i > 0 && runs[i-1].Change == run.Change:
			f.add(anomalyDoubleRun, "%s and %s", runs[i-1], run)
		}
	}
}
