package history

import (
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// settle closes the window: what its transactions did has been judged.
func (c *Checker) settle() {
	for _, t := range c.txns {
		t.judged, t.judgedOps = true, len(t.ops)
		if t.settled || !c.closed(t) {
			continue
		}
		t.settled, t.settledIn = true, c.windows
		if !t.committed {
			c.report.Aborted++
			continue
		}
		c.report.Committed++
		c.report.Runs += len(t.runs)
		if t.outcome == Unknown {
			c.report.Resolved++
		}
	}
}

// closed tells whether nothing of the transaction is left to be judged.
func (c *Checker) closed(t *Txn) bool {
	switch {
	case c.finished || t.outcome == Aborted:
		return true
	case !t.committed:
		return t.unseen
	}
	return t.at <= c.upto && t.passes == nil
}

// forget drops what no later window needs of the transactions that were settled before this one.
func (c *Checker) forget() {
	k := c.needed()
	kept := c.h.txns[:0]
	c.kept = 0
	for _, t := range c.h.txns {
		if t.settled && t.settledIn < c.windows {
			k.trim(t)
			if len(t.ops) == 0 && len(t.runs) == 0 && len(t.weak) == 0 {
				t.ops = nil
				continue
			}
		}
		if t.forgotten || t.unknown() {
			c.kept++
		}
		t.id = int32(len(kept))
		kept = append(kept, t)
	}
	clear(c.h.txns[len(kept):])
	c.h.txns = kept
	c.h.compact()
}

// need says what later windows need.
type need struct {
	c    *Checker
	low  tso.Timestamp     // start of the oldest transaction that is not settled
	held map[cellID][]*Txn // cells of transactions that are not settled
	live map[cellID]*Txn   // whose version of the cell is needed
	lock map[cellID]*Txn   // and whose lock
	weak map[cellID]*Txn   // whose notification of the cell is the newest
}

func (c *Checker) needed() *need {
	k := &need{c: c, low: c.upto + 1, held: map[cellID][]*Txn{}, live: map[cellID]*Txn{}, lock: map[cellID]*Txn{}, weak: map[cellID]*Txn{}}
	for _, t := range c.txns {
		switch {
		case !t.settled:
			k.low = min(k.low, t.start)
			for _, e := range t.effects() {
				k.held[e.cell] = append(k.held[e.cell], t)
			}
			for _, id := range t.weak {
				k.held[id] = append(k.held[id], t)
			}
		case t.committed:
			for _, id := range t.weak {
				if n := k.weak[id]; n == nil || n.at < t.at {
					k.weak[id] = t
				}
			}
		}
	}
	for id, vs := range c.versions {
		cell := cellID(id)
		if n := len(vs); n > 0 && (vs[n-1].value != absent || n > 1 || k.held[cell] != nil || !c.allRan(cell, vs[n-1].commit, false)) {
			k.live[cell] = c.txn(vs[n-1].txn)
		}
	}
	for id, vs := range c.lockers {
		if n := len(vs); n > 0 && vs[n-1].commit >= k.low {
			k.lock[cellID(id)] = c.txn(vs[n-1].txn)
		}
	}
	return k
}

// allRan tells whether every observer of the cell has run since a commit.
func (c *Checker) allRan(cell cellID, commit tso.Timestamp, weak bool) bool {
	name := c.h.names[cell]
	for _, o := range c.rules.Observers {
		if o.Weak == weak && o.Table == name.Table && o.Column == name.Column && !c.ranSince(o.Name, cell, commit) {
			return false
		}
	}
	return true
}

// overlaps tells whether a transaction that is not decided yet may turn out to overlap.
func (k *need) overlaps(t *Txn, cell cellID) bool {
	return t.committed && slices.ContainsFunc(k.held[cell], func(u *Txn) bool {
		return t.at >= u.start && (u.ceiling == 0 || t.start <= u.ceiling)
	})
}

// trim leaves of a settled transaction what is needed.
func (k *need) trim(t *Txn) {
	var ops []op
	for _, e := range t.effects() {
		if t.committed && e.kind != opLock && k.live[e.cell] == t || k.lock[e.cell] == t || k.overlaps(t, e.cell) {
			ops = append(ops, op{kind: e.kind, cell: e.cell, value: e.value})
		}
	}
	var runs []Run
	for _, run := range t.runs {
		needed := k.held[run.of] != nil || !run.Weak && k.live[run.of] != nil
		if needed && k.c.lastRun[observed{run.Observer, run.of}] == t {
			runs = append(runs, run)
		}
	}
	var weak []cellID
	for _, id := range t.weak {
		if k.weak[id] == t && !k.c.allRan(id, t.at, true) {
			weak = append(weak, id)
		}
	}
	t.ops, t.runs, t.weak, t.broken, t.due = ops, runs, weak, nil, nil
	t.began, t.ended, t.floor, t.passes, t.changed = 0, 0, nil, nil, nil
	t.forgotten = true
}

// compact numbers cells and values anew, those that are needed still.
func (h *Recording) compact() {
	cells, values := make([]cellID, len(h.names)), make([]valueID, len(h.texts))
	names, texts := h.names, h.texts
	h.cells, h.names = map[Cell]cellID{}, nil
	h.values, h.texts = map[string]valueID{}, []string{""}
	cell := func(id *cellID) {
		if cells[*id] == 0 {
			cells[*id] = h.cell(names[*id]) + 1
		}
		*id = cells[*id] - 1
	}
	value := func(id *valueID) {
		if *id != absent && values[*id] == 0 {
			values[*id] = h.value([]byte(texts[*id]))
		}
		*id = values[*id]
	}
	for _, t := range h.txns {
		t.renumber(cell, value)
	}
}

// renumber passes every number of a cell and of a value.
func (t *Txn) renumber(cell func(*cellID), value func(*valueID)) {
	for i := range t.ops {
		o := &t.ops[i]
		if o.kind != opScan {
			cell(&o.cell)
			value(&o.value)
			continue
		}
		for j := range o.scan.entries {
			cell(&o.scan.entries[j].cell)
			value(&o.scan.entries[j].value)
		}
	}
	for i := range t.runs {
		cell(&t.runs[i].of)
	}
	for i := range t.weak {
		cell(&t.weak[i])
	}
	passes := t.passes
	t.passes, t.changed = nil, nil
	for id, ps := range passes {
		cell(&id)
		if t.passes == nil {
			t.passes = map[cellID][]pass{}
		}
		t.passes[id] = ps
	}
}
