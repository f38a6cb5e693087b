package history

import "github.com/gopercolator/percolator/tso"

// checkObservers: at most one run commits for a change (I12), a run is for the newest change in its
// snapshot, and in the end every newest change, and every weak notification, has been run for (I10,
// I11, I13).
func (c *checker) checkObservers() {
	type change struct {
		observer string
		cell     cellID
		commit   tso.Timestamp
	}
	type observed struct {
		observer string
		cell     cellID
	}
	runs := map[change]*Txn{}
	last := map[observed]tso.Timestamp{} // start of the newest committed run
	ran := func(t *Txn, run Run) {
		if !run.Weak {
			if _, at := c.valueAt(run.of, t.start); at != run.Change {
				c.report.add(anomalyStaleRun, "%s ran for the change of %s at %d; the newest in its snapshot is of %d", t, run.Cell, run.Change, at)
			}
		}
		if !c.committed[t.id] {
			return
		}
		o := observed{run.Observer, run.of}
		last[o] = max(last[o], t.start)
		if run.Weak {
			return
		}
		key := change{run.Observer, run.of, run.Change}
		if other := runs[key]; other != nil {
			c.report.add(anomalyDoubleRun, "%s and %s both ran for the change of %s at %d", other, t, run.Cell, run.Change)
		}
		runs[key] = t
	}
	for _, t := range c.h.txns {
		for _, run := range t.runs {
			ran(t, run)
		}
	}
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
		for id, v := range newest {
			if last[observed{o.Name, id}] < v.commit {
				c.report.add(anomalyUnobserved, "%s: observer %s has not run since %s, committed at %d", c.h.names[id], o.Name, c.txnName(v.txn), v.commit)
			}
		}
	}
}

// weak lists the newest notification of each cell of a weak column.
func (c *checker) weak(o Observer) map[cellID]version {
	newest := map[cellID]version{}
	for _, t := range c.h.txns {
		for _, id := range t.weak {
			name := c.h.names[id]
			if c.committed[t.id] && name.Table == o.Table && name.Column == o.Column && c.commit[t.id] > newest[id].commit {
				newest[id] = version{start: t.start, commit: c.commit[t.id], txn: t.id}
			}
		}
	}
	return newest
}
