package history

import (
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// resolve decides which transactions committed, and when. What was acknowledged did, what was
// definitely aborted did not. An unknown one did if a transaction read what only it can have
// written, or if the raw tables have a record of it.
func (c *Checker) resolve() {
	for _, t := range c.txns {
		if t.outcome == Committed && !t.committed {
			t.committed, t.at = true, t.acknowledged()
		}
	}
	for _, t := range c.txns {
		if t.noted {
			continue
		}
		t.noted = true
		c.note(t)
		if t.queued != nil {
			c.queued = append(c.queued, t)
		}
	}
	c.resolveRecords()
	c.checkPasses()
	for _, t := range c.txns {
		switch {
		case c.finished && t.unplaced():
			c.report.add(anomalyUnplaced, "%s has been read, and nothing tells its commit timestamp", t)
		case !c.finished && t.unknown():
			c.expect(t)
		}
	}
}

// acknowledged is the commit timestamp that the client was told; 0 of a transaction that wrote
// nothing.
func (t *Txn) acknowledged() tso.Timestamp {
	if t.outcome != Committed || t.commit == t.start && len(t.effects()) == 0 {
		return 0
	}
	return t.commit
}

// note finds who wrote what the transaction read.
func (c *Checker) note(t *Txn) {
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

// saw takes note that reader was given a value.
func (c *Checker) saw(reader *Txn, cell cellID, value valueID, commit tso.Timestamp) {
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
func (c *Checker) place(t *Txn, commit tso.Timestamp, evidence string, args ...any) {
	if t.outcome == Aborted || !t.included {
		return // told where the evidence is looked at
	}
	t.committed = true
	switch {
	case commit == 0 || commit == t.at:
	case t.at == 0:
		t.at = commit
	default:
		args = append([]any{t, t.at, commit}, args...)
		c.report.add(anomalyHalfCommit, "%s committed at %d, and at %d: "+evidence, args...)
	}
}

// resolveRecords compares what the raw tables hold with what clients were told. Records of what is
// forgotten are passed over, and those of what is not complete wait.
func (c *Checker) resolveRecords() {
	if len(c.h.records) == 0 {
		return
	}
	byStart := make(map[tso.Timestamp]*Txn, len(c.txns))
	for _, t := range c.txns {
		// A snapshot of the past has no timestamp of its own.
		if t.start != 0 && (!t.placed || len(t.effects()) > 0) {
			byStart[t.start] = t
		}
	}
	var later []Record
	for _, r := range c.h.records {
		t := byStart[r.Start]
		switch {
		case r.Start > c.upto:
			later = append(later, r)
		case t == nil && (r.Marker || r.Start <= c.judged || c.h.spared[r.Cell] || slices.Contains(c.rules.Unrecorded, r.Cell.Table)):
		case t == nil && c.shared(r, byStart):
		case t == nil:
			c.report.add(anomalyUnknownRecord, "%s has a record of transaction %d, committed at %d, which never began", r.Cell, r.Start, r.Commit)
		case r.Marker && t.outcome == Committed:
			c.report.add(anomalyCommittedUndo, "%s has the rollback marker of %s", r.Cell, t)
		case r.Marker:
			t.unseen = !t.committed
		case t.outcome == Aborted:
			c.report.add(anomalyAbortedRecord, "%s has a record of %s, committed at %d", r.Cell, t, r.Commit)
		default:
			c.place(t, r.Commit, "%s has a record of it", r.Cell)
		}
	}
	c.h.records = later
}
