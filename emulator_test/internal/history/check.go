package history

import (
	"math"

	"github.com/gopercolator/percolator/tso"
)

// Check says what in the recording must not be. The recording must be complete: no one may record
// in it any more.
func Check(h *Recording, rules Rules) *Report { return NewChecker(h, rules).Finish() }

// Checker judges a recording, all at once or while it grows. It judges in windows, a window being
// the transactions that Complete has added, and forgets a window when it has judged the next one.
// What it keeps of a forgotten transaction are the newest versions of cells, which later
// transactions read, and the newest run of an observer for such a cell. So memory is bounded by the
// cells that have a value, by two windows, by what is under way, and by transactions of unknown
// outcome that no later read has decided yet. Totals and queues are judged in the end, and what was
// said of them is kept until then.
//
// Windows change what is found in one respect: a cycle is searched among transactions of two
// neighbouring windows. A longer one has, by necessity, an edge against the order of timestamps,
// and that is an anomaly in itself.
type Checker struct {
	h      *Recording
	rules  Rules
	report *Report

	judged   tso.Timestamp // everything at or below it has been
	windows  int
	counted  int64 // transactions that had ended before the last window
	least    int   // transactions that make a window
	kept     int   // transactions from before the last two windows: each window looks at them
	newest   known // of the acknowledgments that earlier windows have seen
	moment   int64 // of the last window
	finished bool
	queued   []*Txn // that have to do with totals and queues

	window
}

// window is what the checks share of one window.
type window struct {
	upto     tso.Timestamp // what is judged: transactions that began, and versions, at or below it
	txns     []*Txn        // those, and of earlier ones what is not forgotten
	writes   map[written][]author
	versions [][]version // by cell, in the order of commit timestamps; without locks
	lockers  [][]version // by cell: everything that conflicts, locks included
	tables   map[string][]cellID
	pending  map[cellID][]*Txn // unknown ones of which no write was seen
	lastRun  map[observed]*Txn // the newest committed run

	probing   bool          // see stopAtAmbiguous
	ambiguous tso.Timestamp // likewise
}

// NewChecker returns a checker that has judged nothing yet.
func NewChecker(h *Recording, rules Rules) *Checker {
	return &Checker{h: h, rules: rules, report: &Report{}, least: minWindow}
}

// minWindow is the least number of transactions that are worth a window: each sorts all cells.
const minWindow = 4000

// Complete says that no transaction reads or commits at or below a timestamp any more, so that what
// did can be judged and forgotten. A transaction that began there and has not ended is one whose
// client died: its outcome is unknown. Complete does nothing until a window is full.
//
// It judges nothing above the start of a transaction that has been seen to commit, though no scan
// has told when: cells of unknown outcome have to be scanned from time to time (see
// [Checker.Undecided]).
func (c *Checker) Complete(ts tso.Timestamp) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if ts <= c.judged || c.finished || c.h.ended-c.counted < int64(max(c.least, c.kept)) {
		return
	}
	c.counted = c.h.ended
	c.judge(ts)
}

// Finish judges the rest, and what has to be at rest: that observers have run for everything.
func (c *Checker) Finish() *Report {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if !c.finished {
		c.finished = true
		c.judge(math.MaxInt64)
	}
	return c.report
}

// Report is what has been found so far. It must not be read beside Complete.
func (c *Checker) Report() *Report { return c.report }

func (c *Checker) judge(ts tso.Timestamp) {
	c.window = window{upto: ts}
	defer func() { c.window = window{} }()
	c.report.Transactions = int(c.h.begun)
	for _, a := range c.h.judged {
		c.report.add(a.Kind, "%s", a.Text)
	}
	c.h.judged = nil
	c.indexWrites()
	c.include()
	c.resolve()
	if !c.finished {
		c.stopAtUnplaced()
	}
	if c.upto <= c.judged {
		return
	}
	c.order()
	if c.stopAtAmbiguous(); c.upto <= c.judged {
		return
	}
	c.windows++
	c.checkContract()
	c.checkTimestamps()
	c.checkRealTime()
	c.checkWriters()
	c.checkLists()
	c.checkUnique()
	c.checkReads()
	c.checkDeletions()
	c.checkObservers()
	c.checkExports()
	c.checkCycles()
	c.decide()
	c.settle()
	c.judged, c.moment = c.upto, c.h.events.Load()
	if !c.finished {
		c.forget()
		return
	}
	c.checkImports()
	c.checkTotals()
	c.checkDeliveries()
	c.checkWatches()
}

// include finds the transactions of the window.
func (c *Checker) include() {
	c.txns = c.txns[:0]
	for _, t := range c.h.txns {
		t.included = t.start <= c.upto && (t.start != 0 || t.ended != 0 || c.finished)
		if t.included {
			c.txns = append(c.txns, t)
		}
	}
}

// stopAtUnplaced ends the window below the first transaction with an unknown commit timestamp.
func (c *Checker) stopAtUnplaced() {
	for _, t := range c.txns {
		if t.unplaced() {
			c.upto = min(c.upto, t.start-1)
		}
	}
	c.include()
}

// checkContract finds transactions that come too late for what Complete was told.
func (c *Checker) checkContract() {
	for _, t := range c.txns {
		switch {
		case t.forgotten:
		case t.judged && len(t.ops) != t.judgedOps:
			c.report.add(anomalyLate, "%s went on after all at or below %d was complete", t, c.judged)
		case !t.judged && t.start != 0 && t.start <= c.judged:
			c.report.add(anomalyLate, "%s began at %d, when all at or below %d was complete", t, t.start, c.judged)
		case !t.settled && t.outcome == Committed && t.at != 0 && t.at <= c.judged:
			c.report.add(anomalyLate, "%s committed at %d, when all at or below %d was complete", t, t.at, c.judged)
		}
	}
}
