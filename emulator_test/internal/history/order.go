package history

import (
	"cmp"
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// checkTimestamps: unique but for runs that commit together (I32), and commits above their starts
// (I1, I5), but not so far above that collection may have passed the start (I16).
func (c *Checker) checkTimestamps() {
	type stamp struct {
		ts     tso.Timestamp
		txn    *Txn
		fresh  bool
		commit bool
	}
	var all []stamp
	for _, t := range c.txns {
		if t.start != 0 && !t.placed {
			all = append(all, stamp{t.start, t, !t.judged, false})
		}
		if !t.committed || t.at == 0 || t.at > c.upto {
			continue
		}
		all = append(all, stamp{t.at, t, !t.settled, true})
		if t.at <= t.start && !t.settled {
			c.report.add(anomalyTimestamps, "%s committed at %d, not above its start", t, t.at)
		}
		if age := t.at.Sub(t.start); c.rules.MaxAge > 0 && age > c.rules.MaxAge && !t.settled {
			c.report.add(anomalyTooOld, "%s committed at %d, %v above its start", t, t.at, age)
		}
	}
	slices.SortFunc(all, func(a, b stamp) int { return cmp.Compare(a.ts, b.ts) })
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		switch {
		case a.ts != b.ts || a.txn == b.txn || !a.fresh && !b.fresh:
		case a.commit && b.commit && a.txn.together(b.txn):
			c.report.Together++
		default:
			c.report.add(anomalyTimestamps, "%d belongs to %s and to %s", b.ts, a.txn, b.txn)
		}
	}
}

// checkWriters: of two transactions that write or lock one cell, one starts after the other has
// committed (I2). It is enough to look at neighbours: when all of them keep apart, so do the
// others.
func (c *Checker) checkWriters() {
	for cell, vs := range c.lockers {
		for i := 1; i < len(vs); i++ {
			a, b := vs[i-1], vs[i]
			if b.start > a.commit || !c.fresh(a, b) {
				continue
			}
			ta, tb := c.h.txns[a.txn], c.h.txns[b.txn]
			kind := anomalyOverlap
			if ta.reads(cellID(cell)) && tb.reads(cellID(cell)) {
				kind = anomalyLostUpdate
			}
			c.report.add(kind, "%s: %s, committed at %d, and %s, committed at %d, both wrote or locked it", c.h.names[cell], ta, a.commit, tb, b.commit)
		}
	}
}

// fresh tells whether one of the versions has not been judged by an earlier window.
func (c *Checker) fresh(vs ...version) bool {
	return slices.ContainsFunc(vs, func(v version) bool { return !c.txn(v.txn).settled })
}

// reads tells whether the transaction read the cell by name.
func (t *Txn) reads(cell cellID) bool {
	return slices.ContainsFunc(t.ops, func(o op) bool { return o.kind == opRead && o.cell == cell })
}
