package history

import (
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// checkTimestamps: unique, and commits above their starts (I1, I5).
func (c *checker) checkTimestamps() {
	type stamp struct {
		ts  tso.Timestamp
		txn *Txn
	}
	var all []stamp
	for _, t := range c.h.txns {
		commit := c.commit[t.id]
		if t.start != 0 && !t.placed {
			all = append(all, stamp{t.start, t})
		}
		if commit == 0 || !c.committed[t.id] {
			continue
		}
		all = append(all, stamp{commit, t})
		if commit <= t.start {
			c.report.add(anomalyTimestamps, "%s committed at %d, not above its start", t, commit)
		}
	}
	slices.SortFunc(all, func(a, b stamp) int { return sign(a.ts - b.ts) })
	for i := 1; i < len(all); i++ {
		if all[i].ts == all[i-1].ts && all[i].txn != all[i-1].txn {
			c.report.add(anomalyTimestamps, "%d belongs to %s and to %s", all[i].ts, all[i-1].txn, all[i].txn)
		}
	}
}

// moment is a begin or an end in the order of real time.
type moment struct {
	at  int64
	txn *Txn
	end bool
}

// moments lists begins and ends as they happened. Transactions that never ended, and those whose
// begin was not seen, have one of them or none.
func (c *checker) moments() []moment {
	var all []moment
	for _, t := range c.h.txns {
		if t.began != 0 {
			all = append(all, moment{t.began, t, false})
		}
		if t.ended != 0 {
			all = append(all, moment{t.ended, t, true})
		}
	}
	slices.SortFunc(all, func(a, b moment) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	return all
}

// checkRealTime: who begins after another was acknowledged gets later timestamps (I1).
func (c *checker) checkRealTime() {
	var newest tso.Timestamp
	var holder *Txn
	floor := map[int32]tso.Timestamp{} // of blind transactions under way: what their commit must be above
	for _, m := range c.moments() {
		t := m.txn
		switch {
		case !m.end && !t.placed && t.start != 0 && t.start <= newest:
			c.report.add(anomalyRealTime, "%s began after %s was acknowledged, whose timestamp is %d", t, holder, newest)
		case !m.end && t.placed:
			floor[t.id] = newest
		case m.end:
			if low, ok := floor[t.id]; ok && c.commit[t.id] != 0 && t.outcome == Committed && c.commit[t.id] <= low {
				c.report.add(anomalyRealTime, "%s began after a timestamp of %d was known", t, low)
			}
			delete(floor, t.id)
			known := tso.Timestamp(0)
			if !t.placed {
				known = t.start
			}
			if t.outcome == Committed {
				known = max(known, c.commit[t.id])
			}
			if known > newest {
				newest, holder = known, t
			}
		}
	}
}

// checkWriters: of two transactions that write or lock one cell, one starts after the other has
// committed (I2). It is enough to look at neighbours: when all of them keep apart, so do the
// others.
func (c *checker) checkWriters() {
	for cell, vs := range c.lockers {
		for i := 1; i < len(vs); i++ {
			a, b := vs[i-1], vs[i]
			if b.start > a.commit {
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

// reads tells whether the transaction read the cell by name.
func (t *Txn) reads(cell cellID) bool {
	return slices.ContainsFunc(t.ops, func(o op) bool { return o.kind == opRead && o.cell == cell })
}

// checkUnique: no value belongs to two rows at once.
func (c *checker) checkUnique() {
	for _, col := range c.rules.Unique {
		type change struct {
			version
			cell cellID
		}
		var all []change
		for _, id := range c.tables[col.Table] {
			if c.h.names[id].Column == col.Name {
				for _, v := range c.versions[id] {
					all = append(all, change{v, id})
				}
			}
		}
		// Of one transaction's changes those that release a value come first.
		slices.SortFunc(all, func(a, b change) int { return sign(a.commit - b.commit) })
		holder := map[valueID]cellID{}
		held := map[cellID]valueID{}
		for i := 0; i < len(all); {
			j := i
			for ; j < len(all) && all[j].commit == all[i].commit; j++ {
				if old := held[all[j].cell]; old != absent && holder[old] == all[j].cell {
					delete(holder, old)
				}
				delete(held, all[j].cell)
			}
			for ; i < j; i++ {
				ch := all[i]
				if ch.value == absent {
					continue
				}
				if other, taken := holder[ch.value]; taken {
					c.report.add(anomalyUnique, "%s and %s hold one value since %s", c.h.names[other], c.h.names[ch.cell], c.h.txns[ch.txn])
				}
				holder[ch.value], held[ch.cell] = ch.cell, ch.value
			}
		}
	}
}
