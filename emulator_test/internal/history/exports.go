package history

import "github.com/gopercolator/percolator/tso"

// pendingRun is a run that an export says to be due.
type pendingRun struct {
	observer string
	cell     Cell
}

// Exported makes the transaction what a client read in an export of a snapshot, of the instance or
// of what was restored from it. observers are those whose columns it knows to be observed: for each
// of them the export holds what was due at the snapshot (Due).
func (t *Txn) Exported(observers ...string) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.exported = observers
}

// Due records that the export has an observer run for a cell.
func (t *Txn) Due(observer string, c Cell) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if t.due == nil {
		t.due = map[pendingRun]bool{}
	}
	t.due[pendingRun{observer, c}] = true
}

// checkExports: what an observer had not run for at the snapshot of an export is due in it. More
// may be due: a run once more does no harm.
func (c *Checker) checkExports() {
	for _, t := range c.txns {
		if t.judged || len(t.exported) == 0 {
			continue
		}
		ran := c.ranAt(t.start)
		for _, o := range c.rules.Observers {
			for _, name := range t.exported {
				if o.Name == name {
					c.checkExport(t, o, ran)
				}
			}
		}
	}
}

// ranAt finds the newest runs that had committed at a timestamp, by their starts.
func (c *Checker) ranAt(ts tso.Timestamp) map[observed]tso.Timestamp {
	ran := map[observed]tso.Timestamp{}
	for _, t := range c.txns {
		if !t.committed || t.at > ts {
			continue
		}
		for _, run := range t.runs {
			o := observed{run.Observer, run.of}
			ran[o] = max(ran[o], t.start)
		}
	}
	return ran
}

func (c *Checker) checkExport(t *Txn, o Observer, ran map[observed]tso.Timestamp) {
	changed := map[cellID]tso.Timestamp{}
	if o.Weak {
		for _, u := range c.txns {
			for _, id := range u.weak {
				if u.committed && u.at <= t.start && c.observes(o, id) {
					changed[id] = max(changed[id], u.at)
				}
			}
		}
	} else {
		for _, id := range c.tables[o.Table] {
			if i := c.at(id, t.start); i >= 0 && c.observes(o, id) {
				changed[id] = c.versions[id][i].commit
			}
		}
	}
	for _, id := range sortedKeys(changed) {
		if c.mayBeDropped(o.Name, id, changed[id]) {
			continue
		}
		if ran[observed{o.Name, id}] < changed[id] && !t.due[pendingRun{o.Name, c.h.names[id]}] {
			c.report.add(anomalyUndue, "%s: observer %s had not run for the change of %s at %d, and the export does not have it run", t, o.Name, c.h.names[id], changed[id])
		}
	}
}

func (c *Checker) observes(o Observer, id cellID) bool {
	name := c.h.names[id]
	return name.Table == o.Table && name.Column == o.Column
}
