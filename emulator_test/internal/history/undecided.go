package history

import (
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// A transaction of unknown outcome whose writes were not seen when its window is judged may have
// committed all the same. It is kept, and so is who read its cells without seeing them: if it is
// found to have committed below such a read, that read was stale. It is given up when it cannot be
// seen any more.

// pass is a read of a cell at a snapshot that found the version of a commit, and not what a
// transaction may have written. Others that are undecided, too, may be why.
type pass struct {
	found, snapshot tso.Timestamp
	reader          *Txn
	others          []*Txn
}

// Undecided lists the cells to which transactions wrote that have ended, as far as the checker was
// told, and of which it has to find out whether they committed. A scan of them tells.
func (c *Checker) Undecided() []Cell {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	seen := map[cellID]bool{}
	for _, t := range c.h.txns {
		if t.diedBy == 0 || t.settled || t.at != 0 {
			continue
		}
		for _, e := range t.effects() {
			if e.kind != opLock {
				seen[e.cell] = true
			}
		}
	}
	var cells []Cell
	for id := range seen {
		cells = append(cells, c.h.names[id])
	}
	slices.SortFunc(cells, Cell.Compare)
	return cells
}

// expect takes note of an undecided transaction.
func (c *Checker) expect(t *Txn) {
	if t.diedBy == 0 {
		t.diedBy = c.h.events.Load()
	}
	for _, e := range t.effects() {
		if e.kind != opLock {
			if c.pending == nil {
				c.pending = map[cellID][]*Txn{}
			}
			c.pending[e.cell] = append(c.pending[e.cell], t)
		}
	}
}

// stopAtAmbiguous ends the window where a read may be explained by an undecided transaction whose
// writes have no author by themselves: deletions, and values that an index or a refusal tells of.
func (c *Checker) stopAtAmbiguous() {
	if len(c.pending) == 0 {
		return
	}
	report := c.report
	c.report, c.probing = &Report{}, true
	c.checkReads()
	c.checkRuns()
	c.report, c.probing = report, false
	if c.ambiguous != 0 {
		c.upto = min(c.upto, c.ambiguous-1)
		c.include()
		c.order()
	}
}

// explains tells whether an undecided transaction may be why a snapshot differs from what is known.
// As long as it may, the window ends below it.
func (c *Checker) explains(cell cellID, snapshot tso.Timestamp, like func(*Txn) bool) bool {
	if !c.probing {
		return false
	}
	for _, t := range c.pending[cell] {
		if t.start < snapshot && like(t) && (c.ambiguous == 0 || t.start < c.ambiguous) {
			c.ambiguous = t.start
		}
	}
	return false
}

func anyEffect(*Txn) bool { return true }

// leaves tells whether a transaction would leave a value in a cell.
func (t *Txn) leaves(cell cellID, value valueID) bool {
	return slices.ContainsFunc(t.effects(), func(e effect) bool {
		return e.cell == cell && e.value == value && e.kind != opLock
	})
}

// passBy notes that a reader did not see what undecided transactions wrote.
func (c *Checker) passBy(reader *Txn, cell cellID, got valueID) {
	if len(c.pending) == 0 || c.probing {
		return
	}
	var others []*Txn
	for _, t := range c.pending[cell] {
		if t.start < reader.start && t.leaves(cell, got) {
			others = append(others, t)
		}
	}
	for _, t := range c.pending[cell] {
		if t.start >= reader.start || t == reader || slices.Contains(others, t) || c.mayHaveExpired(t, cell, reader.start) {
			continue
		}
		_, found := c.valueAt(cell, reader.start)
		t.passedAt(cell, pass{found, reader.start, reader, others})
	}
}

// passedAt adds a pass. Of those that differ in their snapshot only the newest says it all.
func (t *Txn) passedAt(cell cellID, p pass) {
	if t.passes == nil {
		t.passes = map[cellID][]pass{}
	}
	ps := t.passes[cell]
	i := slices.IndexFunc(ps, func(q pass) bool { return p.found == q.found && slices.Equal(p.others, q.others) })
	switch {
	case i < 0:
		t.passes[cell] = append(ps, p)
	case ps[i].snapshot < p.snapshot:
		ps[i] = p
	}
}

// checkPasses compares the commit timestamps of transactions with the reads that did not see them.
func (c *Checker) checkPasses() {
	for _, t := range c.txns {
		if t.at == 0 || t.passes == nil {
			continue
		}
		left := map[cellID][]pass{}
		for _, cell := range sortedKeys(t.passes) {
			for _, p := range t.passes[cell] {
				switch {
				case p.found >= t.at || t.at > p.snapshot:
				case !c.finished && slices.ContainsFunc(p.others, (*Txn).unknown):
					left[cell] = append(left[cell], p)
				case !slices.ContainsFunc(p.others, func(u *Txn) bool { return t.at < u.at && u.at <= p.snapshot }):
					c.report.add(anomalyStaleRead, "%s did not find in %s what %s wrote, which committed at %d", p.reader, c.h.names[cell], t, t.at)
				}
			}
		}
		if t.passes = left; len(left) == 0 {
			t.passes = nil
		}
	}
}

// decide gives up transactions that no one can see any more. A transaction that died before another
// began has, if it committed, a commit timestamp below the other's start.
func (c *Checker) decide() {
	ceiling := tso.Timestamp(0)
	for _, t := range c.txns {
		if !t.judged && !t.placed && t.start != 0 && t.began > c.moment && (ceiling == 0 || t.start < ceiling) {
			ceiling = t.start
		}
	}
	for _, t := range c.txns {
		if !t.unknown() || t.unseen {
			continue
		}
		if t.ceiling == 0 && t.diedBy <= c.moment {
			t.ceiling = ceiling
		}
		if t.ceiling != 0 {
			t.unseen = c.passedOver(t) || c.hidden(t)
		}
	}
}

// passedOver tells whether a read above all that the transaction can have committed found an older
// version.
func (c *Checker) passedOver(t *Txn) bool {
	for _, ps := range t.passes {
		for _, p := range ps {
			if p.snapshot >= t.ceiling && p.found < t.start && len(p.others) == 0 {
				return true
			}
		}
	}
	return false
}

// hidden tells whether newer versions hide all that the transaction can have written.
func (c *Checker) hidden(t *Txn) bool {
	for _, e := range t.effects() {
		if vs := c.versions[e.cell]; e.kind != opLock && (len(vs) == 0 || vs[len(vs)-1].commit < t.ceiling) {
			return false
		}
	}
	return true
}
