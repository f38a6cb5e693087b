package history

import "github.com/gopercolator/percolator/tso"

// checkReads compares every read with what its snapshot holds, and with the transaction's own
// writes.
func (c *Checker) checkReads() {
	for _, t := range c.txns {
		if t.judged {
			continue
		}
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
	c    *Checker
	t    *Txn
	own  map[cellID]valueID // its writes so far
	seen map[cellID]valueID // what it was told of others' writes
}

func (c *Checker) checkReadsOf(t *Txn) {
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
			if v, _ := c.valueAt(o.cell, t.start); v == absent && !c.explains(o.cell, t.start, anyEffect) {
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
	r.c.passBy(r.t, cell, got)
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
	if c.explains(cell, r.t.start, func(t *Txn) bool { return t.leaves(cell, got) }) {
		return
	}
	should, instead := "no value%.0s", any("")
	if i := c.at(cell, r.t.start); i >= 0 {
		v := c.versions[cell][i]
		should, instead = "what %s wrote", c.txn(v.txn)
		switch {
		case v.value == absent:
			should = "the deletion by %s"
		case v.seen(r.t.start) == absent:
			should = "the expiry of what %s wrote"
		}
	}
	if got == absent {
		c.report.add(anomalyStaleRead, "%s found no value in %s instead of "+should, r.t, name, instead)
		return
	}
	kind, what, who := r.origin(cell, got)
	c.report.add(kind, "%s read in %s what "+what+" instead of "+should, r.t, name, who, instead)
}

// origin says who wrote a value that a read must not see.
func (r *reader) origin(cell cellID, got valueID) (kind Kind, what string, who any) {
	c := r.c
	kind, what, who = anomalyThinAir, "no one wrote%.0s", ""
	for _, a := range c.writes[written{cell, got}] {
		w := c.txn(a.txn)
		switch {
		case w == r.t:
		case w.start > r.t.start:
			kind, what, who = anomalyFutureRead, "%s wrote", w
		case !w.committed:
			if kind == anomalyThinAir {
				kind, what, who = anomalyAbortedRead, "%s wrote and did not commit", w
			}
		case !a.last:
			kind, what, who = anomalyIntermediate, "%s wrote and replaced", w
		case w.at > r.t.start:
			kind, what, who = anomalyFutureRead, "%s wrote", w
		default:
			kind, what, who = anomalyStaleRead, "%s wrote", w
		}
	}
	return kind, what, who
}

func (c *Checker) txn(id int32) *Txn { return c.h.txns[id] }
