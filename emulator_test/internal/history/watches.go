package history

import (
	"cmp"
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// WatchedChange is a change as a watcher hands it out.
type WatchedChange struct {
	Cell          Cell
	Value         []byte // nil: deleted
	Start, Commit tso.Timestamp
}

// watched is what the consumer of a watcher has made sure of, in one step.
type watched struct {
	watcher  string
	columns  []Column // of a beginning
	changes  []WatchedChange
	position tso.Timestamp
}

// WatchesFrom records that a consumer begins to watch columns at a position, for the first time, or
// anew because it came too late for what had committed before. A column without a name stands for
// all of its table.
func (h *Recording) WatchesFrom(watcher string, columns []Column, position tso.Timestamp) {
	h.watch(watched{watcher: watcher, columns: columns, position: position})
}

// Watches records that a consumer has a batch of changes for good, and has come to a position.
func (h *Recording) Watches(watcher string, changes []WatchedChange, position tso.Timestamp) {
	h.watch(watched{watcher: watcher, changes: changes, position: position})
}

func (h *Recording) watch(w watched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watched = append(h.watched, w)
}

// watching is a consumer under way.
type watching struct {
	c      *Checker
	name   string
	due    []watchedVersion // of its columns, by commit, that its position has not passed
	handed map[watchedVersion]bool
	newest map[cellID]tso.Timestamp // that was handed out first
}

// watchedVersion names a version.
type watchedVersion struct {
	commit tso.Timestamp
	cell   cellID
}

// checkWatches: what committed is handed out before a position passes it, for the first time in the
// order of commits, and nothing else is (I25).
func (c *Checker) checkWatches() {
	all := map[string]*watching{}
	for _, step := range c.h.watched {
		w := all[step.watcher]
		if w == nil {
			w = &watching{c: c, name: step.watcher, handed: map[watchedVersion]bool{}, newest: map[cellID]tso.Timestamp{}}
			all[step.watcher] = w
		}
		if step.columns != nil {
			w.begin(step)
			continue
		}
		w.take(step.changes)
		w.pass(step.position)
	}
}

// begin finds what there will be to hand out.
func (w *watching) begin(step watched) {
	w.due = nil
	for id, vs := range w.c.versions {
		name := w.c.h.names[id]
		if !slices.ContainsFunc(step.columns, func(c Column) bool { return c.Table == name.Table && (c.Name == name.Column || c.Name == "") }) {
			continue
		}
		for _, v := range vs {
			if v.commit > step.position {
				w.due = append(w.due, watchedVersion{v.commit, cellID(id)})
			}
		}
	}
	slices.SortFunc(w.due, func(a, b watchedVersion) int {
		return cmp.Or(cmp.Compare(a.commit, b.commit), cmp.Compare(a.cell, b.cell))
	})
}

// take compares a batch with what had committed.
func (w *watching) take(changes []WatchedChange) {
	before := tso.Timestamp(0)
	for _, ch := range changes {
		id, known := w.c.h.cells[ch.Cell]
		if !known || !w.c.committed(id, ch) {
			w.c.report.add(anomalyWatched, "%s was told that %d, which began at %d, changed %s: no such commit", w.name, ch.Commit, ch.Start, ch.Cell)
			continue
		}
		this := watchedVersion{ch.Commit, id}
		if ch.Commit < before || !w.handed[this] && ch.Commit < w.newest[id] {
			w.c.report.add(anomalyWatched, "%s was told of the change of %s at %d after a later one", w.name, ch.Cell, ch.Commit)
		}
		before = ch.Commit
		if !w.handed[this] {
			w.handed[this], w.newest[id] = true, ch.Commit
			w.c.report.Watched++
		}
	}
}

// committed tells whether a change is a version.
func (c *Checker) committed(id cellID, ch WatchedChange) bool {
	return slices.ContainsFunc(c.versions[id], func(v version) bool {
		return v.commit == ch.Commit && (v.start == ch.Start || c.h.txns[v.txn].mayShare(ch.Start)) && (v.value == absent) == (ch.Value == nil) && c.h.texts[v.value] == string(ch.Value)
	})
}

// pass requires that everything up to a position was handed out.
func (w *watching) pass(position tso.Timestamp) {
	for len(w.due) > 0 && w.due[0].commit <= position {
		if v := w.due[0]; !w.handed[v] {
			w.c.report.add(anomalyWatched, "%s is at %d and was not told of the change of %s at %d", w.name, position, w.c.h.names[v.cell], v.commit)
		}
		w.due = w.due[1:]
	}
}
