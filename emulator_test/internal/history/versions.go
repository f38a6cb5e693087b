package history

import (
	"cmp"
	"slices"
	"sort"

	"github.com/gopercolator/percolator/tso"
)

// written is a value in a cell.
type written struct {
	cell  cellID
	value valueID
}

// author is a transaction that wrote a value; last says that it did not replace it later.
type author struct {
	txn  int32
	last bool
}

// version is what a transaction did to a cell.
type version struct {
	start, commit tso.Timestamp
	txn           int32
	value         valueID       // absent: deleted, or only locked
	expires       tso.Timestamp // snapshots from here on do not see the value; 0: all do
}

// effect is what remains of a transaction's writes of one cell.
type effect struct {
	cell  cellID
	value valueID
	kind  opKind // opPut, opDelete or opLock
}

// effects lists what the transaction would commit, one for each cell.
func (t *Txn) effects() []effect {
	if t.changed != nil && t.length == len(t.ops) {
		return t.changed
	}
	out := []effect{}
	at := map[cellID]int{}
	for _, o := range t.ops {
		if o.kind != opPut && o.kind != opDelete && o.kind != opLock {
			continue
		}
		i, again := at[o.cell]
		switch {
		case !again:
			at[o.cell] = len(out)
			out = append(out, effect{o.cell, o.value, o.kind})
		case o.kind != opLock:
			out[i].value, out[i].kind = o.value, o.kind
		}
	}
	t.changed, t.length = out, len(t.ops)
	return out
}

// indexWrites finds the authors of every value, those included that are under way.
func (c *Checker) indexWrites() {
	c.writes = make(map[written][]author)
	for i, t := range c.h.txns {
		t.id = int32(i)
		last := map[cellID]valueID{}
		for _, e := range t.effects() {
			if e.kind == opPut {
				last[e.cell] = e.value
			}
		}
		for _, o := range t.ops {
			if o.kind != opPut {
				continue
			}
			w := written{o.cell, o.value}
			a := author{t.id, last[o.cell] == o.value}
			if !slices.Contains(c.writes[w], a) {
				c.writes[w] = append(c.writes[w], a)
			}
		}
	}
}

// order sorts the versions of each cell, and the cells of each table. Versions above the end of the
// window are left for the next one.
func (c *Checker) order() {
	c.versions, c.lockers = make([][]version, len(c.h.names)), make([][]version, len(c.h.names))
	for _, t := range c.txns {
		if !t.committed || t.at == 0 || t.at > c.upto {
			continue
		}
		for _, e := range t.effects() {
			v := version{t.start, t.at, t.id, e.value, c.expiry(e, t.at)}
			c.lockers[e.cell] = append(c.lockers[e.cell], v)
			if e.kind != opLock {
				c.versions[e.cell] = append(c.versions[e.cell], v)
				if !t.settled {
					c.report.Versions++
				}
			}
		}
	}
	for _, vs := range [][][]version{c.versions, c.lockers} {
		for i := range vs {
			slices.SortFunc(vs[i], func(a, b version) int { return cmp.Compare(a.commit, b.commit) })
		}
	}
	c.tables = map[string][]cellID{}
	for id, name := range c.h.names {
		c.tables[name.Table] = append(c.tables[name.Table], cellID(id))
	}
	for _, ids := range c.tables {
		slices.SortFunc(ids, func(a, b cellID) int { return c.h.names[a].Compare(c.h.names[b]) })
	}
}

// at is the version that a snapshot at ts sees, as an index into c.versions[cell]; -1 if there is
// none.
func (c *Checker) at(cell cellID, ts tso.Timestamp) int {
	vs := c.versions[cell]
	return sort.Search(len(vs), func(i int) bool { return vs[i].commit > ts }) - 1
}

// valueAt is the value that a snapshot at ts sees.
func (c *Checker) valueAt(cell cellID, ts tso.Timestamp) (valueID, tso.Timestamp) {
	i := c.at(cell, ts)
	if i < 0 {
		return absent, 0
	}
	v := c.versions[cell][i]
	return v.seen(ts), v.commit
}
