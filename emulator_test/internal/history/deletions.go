package history

import (
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// deletionLimit is what a transaction of an operator or a collector may delete.
type deletionLimit struct {
	limited bool
	upTo    tso.Timestamp
}

// DeletesUpTo makes the transaction one that only deletes, and only what had committed at or below
// a timestamp (I29), or has expired (I30).
func (t *Txn) DeletesUpTo(upTo tso.Timestamp) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.deletes = deletionLimit{true, upTo}
}

// WriterStarts is the start timestamps of all transactions that write and are not forgotten. A
// snapshot may share another's: MaxStaleness gives it one that its client has had.
func (h *Recording) WriterStarts() map[tso.Timestamp]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	starts := make(map[tso.Timestamp]bool, len(h.txns))
	for _, t := range h.txns {
		if slices.ContainsFunc(t.ops, func(o op) bool { return o.kind == opPut || o.kind == opDelete }) {
			starts[t.start] = true
		}
	}
	return starts
}

// checkDeletions: what operators and collectors delete is old enough, or expired.
func (c *Checker) checkDeletions() {
	for _, t := range c.txns {
		if t.judged || !t.deletes.limited {
			continue
		}
		for _, e := range t.effects() {
			if v, at := c.valueAt(e.cell, t.start); v != absent && at > t.deletes.upTo {
				c.report.add(anomalyDeletion, "%s deleted in %s what had committed at %d; it may delete only what has expired, or had committed by %d", t, c.h.names[e.cell], at, t.deletes.upTo)
			}
		}
	}
}
