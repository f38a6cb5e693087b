package history

import "github.com/gopercolator/percolator/tso"

// observed is an observer and a cell that it observes.
type observed struct {
	observer string
	cell     cellID
}

// checkObservers: at most one run commits for a change (I12), a run is for the newest change in its
// snapshot, and in the end every newest change, and every weak notification, has been run for (I10,
// I11, I13).
func (c *Checker) checkObservers() {
	c.checkRuns()
	type change struct {
		observed
		commit tso.Timestamp
	}
	runs := map[change]*Txn{}
	c.lastRun = map[observed]*Txn{}
	for _, t := range c.txns {
		for _, run := range t.runs {
			if !t.committed {
				continue
			}
			o := observed{run.Observer, run.of}
			if last := c.lastRun[o]; last == nil || last.start < t.start {
				c.lastRun[o] = t
			}
			if run.Weak {
				continue
			}
			key := change{o, run.Change}
			if other := runs[key]; other != nil && (other.fresh() || t.fresh()) {
				c.report.add(anomalyDoubleRun, "%s and %s both ran for the change of %s at %d", other, t, run.Cell, run.Change)
			}
			runs[key] = t
		}
	}
	if c.finished {
		c.checkObserved()
	}
}

// checkRuns: a run is for the newest change in its snapshot.
func (c *Checker) checkRuns() {
	for _, t := range c.txns {
		if t.judged {
			continue
		}
		for _, run := range t.runs {
			_, at := c.valueAt(run.of, t.start)
			if run.Weak || at == run.Change || c.explains(run.of, t.start, anyEffect) {
				continue
			}
			c.report.add(anomalyStaleRun, "%s ran for the change of %s at %d; the newest in its snapshot is of %d", t, run.Cell, run.Change, at)
		}
	}
}

// ranSince tells whether an observer has run for a cell since a commit, or an operator may have
// spared it that.
func (c *Checker) ranSince(observer string, cell cellID, commit tso.Timestamp) bool {
	last := c.lastRun[observed{observer, cell}]
	return last != nil && last.start >= commit || c.mayBeDropped(observer, cell, commit)
}

func (c *Checker) mayBeDropped(observer string, cell cellID, commit tso.Timestamp) bool {
	return c.h.dropped[pendingRun{observer, c.h.names[cell]}] >= commit
}

// checkObserved: at rest, every newest change and notification has been run for.
func (c *Checker) checkObserved() {
	for _, o := range c.rules.Observers {
		newest := map[cellID]version{}
		if o.Weak {
			newest = c.weak(o)
		} else {
			for _, id := range c.tables[o.Table] {
				if vs := c.versions[id]; len(vs) > 0 && c.h.names[id].Column == o.Column {
					newest[id] = vs[len(vs)-1]
				}
			}
		}
		for _, id := range sortedKeys(newest) {
			v := newest[id]
			c.checkExpired(o, id, v)
			if !c.ranSince(o.Name, id, v.commit) {
				c.report.add(anomalyUnobserved, "%s: observer %s has not run since %s, committed at %d", c.h.names[id], o.Name, c.txn(v.txn), v.commit)
			}
		}
	}
}

// weak lists the newest notification of each cell of a weak column.
func (c *Checker) weak(o Observer) map[cellID]version {
	newest := map[cellID]version{}
	for _, t := range c.txns {
		for _, id := range t.weak {
			name := c.h.names[id]
			if t.committed && name.Table == o.Table && name.Column == o.Column && t.at > newest[id].commit {
				newest[id] = version{start: t.start, commit: t.at, txn: t.id}
			}
		}
	}
	return newest
}
