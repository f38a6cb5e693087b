package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
)

// Parked counts what only waits for an operator.
type Parked struct {
	Cells int
	Since time.Time // the oldest, by the clock of the worker that parked it

	last model.Cell
	by   []parkedBy // few: as many as observers
}

type parkedBy struct {
	table, column, observer string
	cells                   int
}

// Add counts an observer that is parked for a cell. Those of a cell come one after the other.
func (p *Parked) Add(c model.Cell, observer string, since time.Time) {
	if p.Cells == 0 || since.Before(p.Since) {
		p.Since = since
	}
	if p.Cells == 0 || c != p.last {
		p.Cells, p.last = p.Cells+1, c
	}
	i := slices.IndexFunc(p.by, func(b parkedBy) bool {
		return b.observer == observer && b.column == c.Column && b.table == c.Table
	})
	if i < 0 {
		i, p.by = len(p.by), append(p.by, parkedBy{c.Table, c.Column, observer, 0})
	}
	p.by[i].cells++
}

// Findings judges it; more: there may be more than were counted.
func (p Parked) Findings(more bool, now time.Time) []Finding {
	if p.Cells <= MostParked {
		return nil
	}
	saw := counted(p.Cells, "cell is parked", "cells are parked")
	if more {
		saw = "at least " + saw
	}
	worst := slices.MaxFunc(p.by, func(a, b parkedBy) int { return cmp.Compare(a.cells, b.cells) })
	saw += fmt.Sprintf(", the first %s ago: the observer %s failed too often on %s/%s", text.Age(now.Sub(p.Since)),
		text.Shown(worst.observer), text.Shown(worst.table), text.Shown(worst.column))
	if len(p.by) > 1 {
		saw += fmt.Sprintf(" (%d), others too", worst.cells)
	}
	return []Finding{{Level: Warning, Saw: saw, Remedy: "percolator notify ls " + text.Shown(worst.table),
		Advice: "Read the reason, remove the cause, retry.", Runbook: "alert-percolator-parked-rows"}}
}
