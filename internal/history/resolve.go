package history

import "github.com/gopercolator/percolator/tso"

// resolve decides which transactions committed, and when. What was acknowledged did, what was
// definitely aborted did not. An unknown one did if anybody has read what only it can have written,
// or if the raw tables have a record of it.
func (c *checker) resolve() {
	h := c.h
	c.committed, c.commit = make([]bool, len(h.txns)), make([]tso.Timestamp, len(h.txns))
	for _, t := range h.txns {
		if t.outcome == Committed {
			c.committed[t.id] = true
			if t.commit != t.start || len(t.effects()) > 0 {
				c.commit[t.id] = t.commit
			}
		}
	}
	for _, t := range h.txns {
		for _, o := range t.ops {
			switch o.kind {
			case opRead:
				c.saw(t, o.cell, o.value, o.commit)
			case opScan:
				for _, e := range o.scan.entries {
					commit := e.commit
					if o.scan.index {
						commit = 0 // of the entry, which may be older than the value
					}
					c.saw(t, e.cell, e.value, commit)
				}
			}
		}
	}
	c.resolveRecords()
	for _, t := range h.txns {
		switch {
		case c.committed[t.id] && t.start != 0 && c.commit[t.id] == 0 && len(t.effects()) > 0:
			c.report.add(anomalyUnplaced, "%s has been read, and nothing tells its commit timestamp", t)
			fallthrough
		case c.committed[t.id]:
			c.report.Committed++
			if t.outcome == Unknown {
				c.report.Resolved++
			}
		default:
			c.report.Aborted++
		}
	}
}

// saw takes note that reader was given a value.
func (c *checker) saw(reader *Txn, cell cellID, value valueID, commit tso.Timestamp) {
	if value == absent {
		return
	}
	authors := c.writes[written{cell, value}]
	if len(authors) != 1 || authors[0].txn == reader.id {
		return
	}
	c.place(c.h.txns[authors[0].txn], commit, "%s read %s of it", reader, c.h.names[cell])
}

// place takes note of evidence that t has committed, at the timestamp commit if that is not 0.
func (c *checker) place(t *Txn, commit tso.Timestamp, evidence string, args ...any) {
	if t.outcome == Aborted {
		return // told where the evidence is looked at
	}
	c.committed[t.id] = true
	switch {
	case commit == 0 || commit == c.commit[t.id]:
	case c.commit[t.id] == 0:
		c.commit[t.id] = commit
	default:
		args = append([]any{t, c.commit[t.id], commit}, args...)
		c.report.add(anomalyHalfCommit, "%s committed at %d, and at %d: "+evidence, args...)
	}
}

// resolveRecords compares what the raw tables hold with what clients were told.
func (c *checker) resolveRecords() {
	if len(c.h.records) == 0 {
		return
	}
	byStart := make(map[tso.Timestamp]*Txn, len(c.h.txns))
	for _, t := range c.h.txns {
		if t.start != 0 && (!t.placed || len(t.effects()) > 0) { // a snapshot of the past has no timestamp of its own
			byStart[t.start] = t
		}
	}
	for _, r := range c.h.records {
		t := byStart[r.Start]
		switch {
		case t == nil && r.Marker:
		case t == nil:
			c.report.add(anomalyUnknownRecord, "%s has a record of transaction %d, committed at %d, which nobody began", r.Cell, r.Start, r.Commit)
		case r.Marker && t.outcome == Committed:
			c.report.add(anomalyCommittedUndo, "%s has the rollback marker of %s", r.Cell, t)
		case r.Marker:
		case t.outcome == Aborted:
			c.report.add(anomalyAbortedRecord, "%s has a record of %s, committed at %d", r.Cell, t, r.Commit)
		default:
			c.place(t, r.Commit, "%s has a record of it", r.Cell)
		}
	}
}
