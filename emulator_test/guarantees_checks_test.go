package emulator_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// guaranteeCheck is what came out of the check of one property.
type guaranteeCheck struct {
	name      string
	occasions int // how often the property could have been broken: a check without occasions shows nothing
	broken    []string
	found     int // all that is broken; broken names some
}

func (c *guaranteeCheck) fail(format string, args ...any) {
	if c.found++; c.found <= 5 {
		c.broken = append(c.broken, fmt.Sprintf(format, args...))
	}
}

func (c *guaranteeCheck) report(t *testing.T) {
	for _, b := range c.broken {
		t.Error(b)
	}
	if c.found > len(c.broken) {
		t.Errorf("%d in all", c.found)
	}
}

const (
	onceCheck = "at most one commit per observer and change"
	restCheck = "everything is done without a reader"
)

// check checks every property of the history.
func (h *guaranteeHistory) check(w *guaranteeWrites) []*guaranteeCheck {
	var all []*guaranteeCheck
	for _, p := range []struct {
		name  string
		check func(*guaranteeCheck)
	}{
		{"tables as the protocol leaves them", h.checkAudit},
		{"acknowledged writes stay", func(c *guaranteeCheck) { h.checkWrites(c, w) }},
		{onceCheck, h.checkOnce},
		{"a run and its acknowledgment are one", h.checkAtomic},
		{"every change is acknowledged", h.checkAcknowledged},
		{"the last run sees the newest value", h.checkNewest},
		{"writes before a run collapse", h.checkCollapse},
		{"a change during a run survives", h.checkHeld},
		{"observers that write nothing acknowledge", h.checkQuiet},
		{"cascades ten deep", h.checkChains},
		{"a fan of a hundred", h.checkFans},
		{"self-notification", h.checkCountdowns},
		{"deletes trigger", h.checkDeletes},
		{"weak notifications", func(c *guaranteeCheck) { h.checkPokes(c, w) }},
	} {
		c := &guaranteeCheck{name: p.name}
		p.check(c)
		all = append(all, c)
	}
	return all
}

func (h *guaranteeHistory) checkAudit(c *guaranteeCheck) {
	c.occasions = h.audit.Records
	for _, f := range h.audit.Findings {
		c.fail("%s", f)
	}
}

// checkWrites: what a writer was told is committed is there.
func (h *guaranteeHistory) checkWrites(c *guaranteeCheck, w *guaranteeWrites) {
	for _, a := range w.acked {
		c.occasions++
		if at := seenBy(h.changes[a.cell], a.commit); at == nil || at.Commit != a.commit {
			c.fail("%s: no record of the change at %d", a.cell, a.commit)
		}
	}
}

// checkOnce looks at acknowledgments, which every observer writes, and at what the runs wrote
// themselves.
func (h *guaranteeHistory) checkOnce(c *guaranteeCheck) {
	for k, starts := range h.acks {
		last := model.AuditedRecord{}
		for _, start := range starts {
			c.occasions++
			switch at := seenBy(h.changes[k.cell], start); {
			case at == nil:
				c.fail("%s acknowledged %s at %d, before its first change", k.observer, k.cell, start)
			case at.Commit == last.Commit:
				c.fail("%s acknowledged the change of %s at %d twice", k.observer, k.cell, at.Commit)
			default:
				last = *at
			}
		}
	}
	for k, runs := range h.runs {
		for i := 1; i < len(runs); i++ {
			if !runs[i].Weak && runs[i].Change == runs[i-1].Change {
				c.fail("%s: runs of %d and %d both committed for the change of %s at %d", k.observer, runs[i-1].Start, runs[i].Start, k.cell, runs[i].Change)
			}
		}
	}
}

// checkAtomic: each run left both its acknowledgment and its record, and was for the newest change
// that it could see.
func (h *guaranteeHistory) checkAtomic(c *guaranteeCheck) {
	for k, runs := range h.runs {
		acks := map[int64]bool{}
		for _, start := range h.acks[k] {
			acks[int64(start)] = true
		}
		for _, r := range runs {
			if r.Weak {
				continue
			}
			c.occasions++
			if !acks[int64(r.Start)] {
				c.fail("the run of %s for %s at %d has no acknowledgment", k.observer, k.cell, r.Start)
			}
			if at := seenBy(h.changes[k.cell], r.Start); at == nil || at.Commit != r.Change || r.Deleted != (at.Kind == 'D') {
				c.fail("the run of %s for %s at %d was for the change at %d, which is not the newest of its snapshot", k.observer, k.cell, r.Start, r.Change)
			}
		}
	}
	for k, starts := range h.acks {
		if k.observer != "quiet" && len(starts) != len(h.runs[k]) {
			c.fail("%s has acknowledged %s %d times and run %d times", k.observer, k.cell, len(starts), len(h.runs[k]))
		}
	}
}

func (h *guaranteeHistory) checkAcknowledged(c *guaranteeCheck) {
	for k, changes := range h.observed {
		c.occasions += len(changes)
		newest, acks := changes[len(changes)-1], h.acks[k]
		switch {
		case len(acks) == 0:
			c.fail("%s never ran for %s", k.observer, k.cell)
		case acks[len(acks)-1] < newest.Commit:
			c.fail("%s has not run for the change of %s at %d", k.observer, k.cell, newest.Commit)
		}
		if len(acks) > len(changes) {
			c.fail("%s ran %d times for %d changes of %s", k.observer, len(acks), len(changes), k.cell)
		}
	}
}

func (h *guaranteeHistory) checkNewest(c *guaranteeCheck) {
	for k, changes := range h.observed {
		runs := h.runs[k]
		if k.observer == "quiet" || len(runs) == 0 {
			continue
		}
		c.occasions++
		newest, last := changes[len(changes)-1], runs[len(runs)-1]
		if v := h.values[k.cell]; last.Change != newest.Commit || last.Value != string(v) || last.Deleted != (v == nil) {
			c.fail("the last run of %s for %s saw the change at %d, not that at %d", k.observer, k.cell, last.Change, newest.Commit)
		}
	}
}

// checkCollapse: a hundred writes before there was a worker give between one run and a hundred.
func (h *guaranteeHistory) checkCollapse(c *guaranteeCheck) {
	for k, changes := range h.observed {
		if !strings.HasPrefix(k.cell.Row, "burst-") {
			continue
		}
		c.occasions++
		n := len(h.runs[k])
		if len(changes) != guaranteeBurst || n < 1 || n > guaranteeBurst {
			c.fail("%d runs of %s for %d changes of %s", n, k.observer, len(changes), k.cell)
		}
	}
}

// checkHeld: if a run committed that somebody wrote into, there is another run for what was
// written.
func (h *guaranteeHistory) checkHeld(c *guaranteeCheck) {
	for k, changes := range h.observed {
		runs := h.runs[k]
		if k.observer != "held" || len(runs) == 0 || runs[0].Value != heldFirst {
			continue
		}
		c.occasions++
		if len(runs) < 2 || len(changes) < 2 || changes[1].Commit < runs[0].Start || runs[len(runs)-1].Value != heldSecond {
			c.fail("%s: %d changes and %d runs", k.cell, len(changes), len(runs))
		}
	}
}

func (h *guaranteeHistory) checkQuiet(c *guaranteeCheck) {
	for k, changes := range h.observed {
		if k.observer != "quiet" {
			continue
		}
		c.occasions++
		if n := len(h.acks[k]); n < 1 || n > len(changes) {
			c.fail("%d acknowledgments for %d changes of %s", n, len(changes), k.cell)
		}
	}
}

// once counts the changes of a cell and the runs of an observer for it: both must be one where one
// change leads to one.
func (h *guaranteeHistory) once(c *guaranteeCheck, observer string, cell percolator.Cell) {
	if changes, runs := len(h.changes[cell]), len(h.runs[observedCell{observer, cell}]); changes != 1 || runs != 1 {
		c.fail("%s: %d changes and %d runs", cell, changes, runs)
	}
}

func (h *guaranteeHistory) checkChains(c *guaranteeCheck) {
	for cell := range h.changes {
		if cell.Column != chainColumn(0) {
			continue
		}
		c.occasions++
		for i := range guaranteeDepth {
			h.once(c, chainColumn(i), percolator.Cell{Table: cell.Table, Row: cell.Row, Column: chainColumn(i)})
		}
		if end := h.values[percolator.Cell{Table: cell.Table, Row: cell.Row, Column: "end"}]; string(end) != strings.Repeat(".", guaranteeDepth) {
			c.fail("%s: the cascade ended with %q", cell, end)
		}
	}
}

func (h *guaranteeHistory) checkFans(c *guaranteeCheck) {
	for cell := range h.changes {
		if cell.Column != "fan" {
			continue
		}
		c.occasions++
		h.once(c, "fan", cell)
		for i := range guaranteeWidth {
			h.once(c, "leaf", leafOf(cell.Row, i))
		}
	}
}

func (h *guaranteeHistory) checkCountdowns(c *guaranteeCheck) {
	for k, changes := range h.observed {
		if k.observer != "down" {
			continue
		}
		c.occasions++
		runs := h.runs[k]
		if len(changes) != guaranteeFrom+1 || len(runs) != guaranteeFrom+1 || string(h.values[k.cell]) != "0" {
			c.fail("%s: %d changes and %d runs, ending with %q", k.cell, len(changes), len(runs), h.values[k.cell])
		}
		for i, r := range runs {
			if r.Value != strconv.Itoa(guaranteeFrom-i) {
				c.fail("%s: run %d was for %q", k.cell, i, r.Value)
			}
		}
	}
}

func (h *guaranteeHistory) checkDeletes(c *guaranteeCheck) {
	for k, changes := range h.observed {
		if changes[len(changes)-1].Kind != 'D' {
			continue
		}
		c.occasions++
		if runs := h.runs[k]; len(runs) == 0 || !runs[len(runs)-1].Deleted {
			c.fail("%s has not run for the deletion of %s", k.observer, k.cell)
		}
	}
}

// checkPokes: a weak notification is followed by a run, at least.
func (h *guaranteeHistory) checkPokes(c *guaranteeCheck, w *guaranteeWrites) {
	for cell, ts := range w.poked {
		for _, observer := range []string{"poke", "poked"} {
			c.occasions++
			if runs := h.runs[observedCell{observer, cell}]; len(runs) == 0 || runs[len(runs)-1].Start < ts {
				c.fail("no run of %s for the notification of %s at %d", observer, cell, ts)
			}
		}
	}
}
