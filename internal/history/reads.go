package history

import "github.com/gopercolator/percolator/tso"

// checkReads compares every read with what its snapshot holds, and with the transaction's own
// writes.
func (c *checker) checkReads() {
	for _, t := range c.h.txns {
		for _, b := range t.broken {
			c.report.add(anomalyInvariant, "%s: %s", t, b)
		}
		if t.start != 0 {
			c.checkReadsOf(t)
		}
	}
}

// reader is a transaction as far as it has come.
type reader struct {
	c    *checker
	t    *Txn
	own  map[cellID]valueID // its writes so far
	seen map[cellID]valueID // what it was told of others' writes
}

func (c *checker) checkReadsOf(t *Txn) {
	r := &reader{c, t, map[cellID]valueID{}, map[cellID]valueID{}}
	for _, o := range t.ops {
		switch o.kind {
		case opPut, opDelete:
			r.own[o.cell] = o.value
		case opRead:
			c.report.Reads++
			r.read(o.cell, o.value, o.commit)
		case opPresent:
			c.report.Reads++
			if v, _ := c.valueAt(o.cell, t.start); v == absent {
				c.report.add(anomalyStaleRead, "%s was told that %s has a value; there is none at %d", t, c.h.names[o.cell], t.start)
			}
		case opScan:
			c.report.Scans++
			if o.scan.index {
				r.indexScan(o.scan)
			} else {
				r.scan(o.scan)
			}
		}
	}
}

// read compares one answer. commit is when the version was committed, as far as the client was
// told.
func (r *reader) read(cell cellID, got valueID, commit tso.Timestamp) {
	name := r.c.h.names[cell]
	if own, ok := r.own[cell]; ok {
		if got != own {
			r.c.report.add(anomalyInternal, "%s wrote %s and read something else", r.t, name)
		}
		return
	}
	if before, ok := r.seen[cell]; ok && before != got {
		r.c.report.add(anomalyInternal, "%s read %s twice and got two answers", r.t, name)
	}
	r.seen[cell] = got
	want, at := r.c.valueAt(cell, r.t.start)
	switch {
	case got != want:
		r.differs(cell, got)
	case commit != 0 && commit != at:
		r.c.report.add(anomalyStaleRead, "%s read %s as committed at %d; the newest version below its snapshot is of %d", r.t, name, commit, at)
	}
}

// differs explains a read that is not what the snapshot holds.
func (r *reader) differs(cell cellID, got valueID) {
	c, name := r.c, r.c.h.names[cell]
	should := "no value"
	if i := c.at(cell, r.t.start); i >= 0 {
		v := c.versions[cell][i]
		should = "what " + c.txnName(v.txn) + " wrote"
		if v.value == absent {
			should = "the deletion by " + c.txnName(v.txn)
		}
	}
	if got == absent {
		c.report.add(anomalyStaleRead, "%s found no value in %s instead of %s", r.t, name, should)
		return
	}
	kind, best := anomalyThinAir, "nobody wrote"
	for _, a := range c.writes[written{cell, got}] {
		w := c.txnName(a.txn)
		switch {
		case a.txn == r.t.id:
		case !c.committed[a.txn]:
			if kind == anomalyThinAir {
				kind, best = anomalyAbortedRead, w+" wrote and did not commit"
			}
		case !a.last:
			kind, best = anomalyIntermediate, w+" wrote and replaced"
		case c.commit[a.txn] > r.t.start:
			kind, best = anomalyFutureRead, w+" wrote"
		default:
			kind, best = anomalyStaleRead, w+" wrote"
		}
	}
	c.report.add(kind, "%s read in %s what %s instead of %s", r.t, name, best, should)
}

func (c *checker) txnName(id int32) string {
	t := c.h.txns[id]
	if t.commit == 0 && c.commit[id] != 0 {
		u := *t
		u.commit = c.commit[id]
		return u.String()
	}
	return t.String()
}
