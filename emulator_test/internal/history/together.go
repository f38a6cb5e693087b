package history

import (
	"slices"
	"strings"

	"github.com/gopercolator/percolator/tso"
)

// Runs of one observer may begin together, with timestamps in a row, and commit together by the
// timestamp before these (I32). It is no transaction's here. Which of them have committed so, what
// they wrote tells.

// togetherMost is how many runs begin together at most.
const togetherMost = 16

// together reports whether two transactions may have committed together.
func (t *Txn) together(u *Txn) bool {
	apart := max(t.start, u.start) - min(t.start, u.start)
	return len(t.runs) == 1 && len(u.runs) == 1 && t.Client == u.Client && t.runs[0].Observer == u.runs[0].Observer && apart < togetherMost
}

// mayShare reports whether the transaction may have committed with others by a timestamp.
func (t *Txn) mayShare(start tso.Timestamp) bool {
	return len(t.runs) == 1 && start < t.start && t.start <= start+togetherMost
}

// shared reports whether a record may be of a commit that a transaction shares.
func (c *Checker) shared(r Record, byStart map[tso.Timestamp]*Txn) bool {
	for i := range tso.Timestamp(togetherMost) {
		t := byStart[r.Start+1+i]
		if t == nil || !t.mayShare(r.Start) || t.outcome == Aborted {
			continue
		}
		run := t.runs[0]
		acknowledges := run.Cell.Table == r.Cell.Table && run.Cell.Row == r.Cell.Row && strings.HasPrefix(r.Cell.Column, "\x00")
		if acknowledges || slices.ContainsFunc(t.effects(), func(e effect) bool { return c.h.names[e.cell] == r.Cell }) {
			return true
		}
	}
	return false
}

// Shared reports whether a run that deletes a cell may have committed with others by a timestamp.
func (h *Recording) Shared(start tso.Timestamp, cell Cell) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, known := h.cells[cell]
	return known && slices.ContainsFunc(h.txns, func(t *Txn) bool {
		return t.mayShare(start) && slices.ContainsFunc(t.ops, func(o op) bool { return o.kind == opDelete && o.cell == id })
	})
}
