package history

import (
	"slices"
	"sort"

	"github.com/gopercolator/percolator/tso"
)

// Rules is what Check has to know of the application.
type Rules struct {
	// List says that the values of a cell are lists: elements with a blank after each, to which
	// transactions append.
	List func(Cell) bool
	// Unique are the columns no two rows of which may hold one value at a time.
	Unique []Column
	// Observers are those whose runs the history records. After the last transaction each has run for
	// the newest change of each cell.
	Observers []Observer
}

// Column names a column of a table.
type Column struct{ Table, Name string }

// Observer names the observer of a column.
type Observer struct {
	Name, Table, Column string
	Weak                bool
}

// Check says what in the history must not be. The history must be complete: nobody may
// record in it any more.
func Check(h *Recording, rules Rules) *Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &checker{h: h, rules: rules, report: &Report{Transactions: len(h.txns)}}
	c.indexWrites()
	c.resolve()
	c.order()
	c.checkTimestamps()
	c.checkRealTime()
	c.checkWriters()
	c.checkLists()
	c.checkUnique()
	c.checkReads()
	c.checkObservers()
	c.checkCycles()
	return c.report
}

// checker holds what the checks share.
type checker struct {
	h      *Recording
	rules  Rules
	report *Report

	committed []bool          // by transaction, after resolve
	commit    []tso.Timestamp // of committed writers
	writes    map[written][]author
	versions  [][]version // by cell, in the order of commit timestamps; without locks
	lockers   [][]version // by cell: everything that conflicts, locks included
	tables    map[string][]cellID
}

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
	value         valueID // absent: deleted, or only locked
}

// effect is what remains of a transaction's writes of one cell.
type effect struct {
	cell  cellID
	value valueID
	kind  opKind // opPut, opDelete or opLock
}

// effects lists what the transaction would commit, one for each cell.
func (t *Txn) effects() []effect {
	var out []effect
next:
	for _, o := range t.ops {
		if o.kind != opPut && o.kind != opDelete && o.kind != opLock {
			continue
		}
		for i := range out {
			if out[i].cell == o.cell {
				if o.kind != opLock {
					out[i].value, out[i].kind = o.value, o.kind
				}
				continue next
			}
		}
		out = append(out, effect{o.cell, o.value, o.kind})
	}
	return out
}

// indexWrites finds the authors of every value.
func (c *checker) indexWrites() {
	c.writes = make(map[written][]author)
	for _, t := range c.h.txns {
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

// order sorts the versions of each cell, and the cells of each table.
func (c *checker) order() {
	c.versions, c.lockers = make([][]version, len(c.h.names)), make([][]version, len(c.h.names))
	for _, t := range c.h.txns {
		if !c.committed[t.id] || c.commit[t.id] == 0 {
			continue
		}
		for _, e := range t.effects() {
			v := version{t.start, c.commit[t.id], t.id, e.value}
			c.lockers[e.cell] = append(c.lockers[e.cell], v)
			if e.kind != opLock {
				c.versions[e.cell] = append(c.versions[e.cell], v)
				c.report.Versions++
			}
		}
	}
	for _, vs := range [][][]version{c.versions, c.lockers} {
		for i := range vs {
			slices.SortFunc(vs[i], func(a, b version) int { return int(sign(a.commit - b.commit)) })
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

func sign(d tso.Timestamp) int {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

// at is the version that a snapshot at ts sees, as an index into c.versions[cell]; -1 if there is
// none.
func (c *checker) at(cell cellID, ts tso.Timestamp) int {
	vs := c.versions[cell]
	return sort.Search(len(vs), func(i int) bool { return vs[i].commit > ts }) - 1
}

// valueAt is the value that a snapshot at ts sees.
func (c *checker) valueAt(cell cellID, ts tso.Timestamp) (valueID, tso.Timestamp) {
	i := c.at(cell, ts)
	if i < 0 {
		return absent, 0
	}
	return c.versions[cell][i].value, c.versions[cell][i].commit
}
