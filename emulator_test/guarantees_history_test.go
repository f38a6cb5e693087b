package emulator_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// guaranteeHistory is what the tables say at the end, from the raw records and from what the runs
// wrote.
type guaranteeHistory struct {
	audit   *model.AuditReport
	changes map[percolator.Cell][]model.AuditedRecord // puts and deletes of observed cells, oldest first
	acks    map[observedCell][]tso.Timestamp          // start timestamps of the runs that acknowledged
	runs    map[observedCell][]guaranteeRun           // by start timestamp
	values  map[percolator.Cell][]byte                // of the observed cells, and where cascades end
}

// observedCell is an observer and a cell that it observes.
type observedCell struct {
	observer string
	cell     percolator.Cell
}

// readGuarantees reads everything. The raw records come first: afterwards a reader resolves what is
// locked in the table of runs.
func readGuarantees(ctx context.Context, c *percolator.Client, store *bigtable.Client) (*guaranteeHistory, error) {
	h := &guaranteeHistory{changes: map[percolator.Cell][]model.AuditedRecord{}, acks: map[observedCell][]tso.Timestamp{}, runs: map[observedCell][]guaranteeRun{}}
	names := guaranteeNames()
	var err error
	h.audit, err = percolatortest.Audit(ctx, store, model.AuditConfig{
		Schema: c.Schema(), Observers: names,
		Visit: func(r model.AuditedRecord) {
			if rest, ok := strings.CutPrefix(r.Cell.Column, "\x00ack\x00"); ok {
				if observer, column, _ := strings.Cut(rest, "\x00"); r.Kind == 'L' {
					k := observedCell{observer, percolator.Cell{Table: r.Cell.Table, Row: r.Cell.Row, Column: column}}
					h.acks[k] = append(h.acks[k], r.Start)
				}
			} else if names[[2]string{r.Cell.Table, r.Cell.Column}] != nil && (r.Kind == 'P' || r.Kind == 'D') {
				h.changes[r.Cell] = append(h.changes[r.Cell], r)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	for _, rs := range h.changes {
		slices.SortFunc(rs, func(a, b model.AuditedRecord) int { return cmp.Compare(a.Commit, b.Commit) })
	}
	for _, starts := range h.acks {
		slices.Sort(starts)
	}
	if err := h.readRuns(ctx, c); err != nil {
		return nil, err
	}
	cells := slices.Collect(maps.Keys(h.changes))
	for cell := range h.changes {
		if cell.Column == chainColumn(0) {
			cells = append(cells, percolator.Cell{Table: cell.Table, Row: cell.Row, Column: "end"})
		}
	}
	h.values, err = finalValues(ctx, c, cells)
	return h, err
}

func (h *guaranteeHistory) readRuns(ctx context.Context, c *percolator.Client) error {
	err := c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for e, err := range s.Scan(ctx, guaranteeRuns, percolator.All(), "run") {
			if err != nil {
				return err
			}
			var r guaranteeRun
			if err := json.Unmarshal(e.Value, &r); err != nil {
				return fmt.Errorf("%s: %w", e.Cell, err)
			}
			k := observedCell{r.Observer, r.Cell}
			h.runs[k] = append(h.runs[k], r)
		}
		return nil
	})
	for _, rs := range h.runs {
		slices.SortFunc(rs, func(a, b guaranteeRun) int { return cmp.Compare(a.Start, b.Start) })
	}
	return err
}

// observed yields every cell that ever changed, with each of its observers.
func (h *guaranteeHistory) observed(yield func(k observedCell, changes []model.AuditedRecord) bool) {
	names := guaranteeNames()
	for cell, changes := range h.changes {
		for _, name := range names[[2]string{cell.Table, cell.Column}] {
			if !yield(observedCell{name, cell}, changes) {
				return
			}
		}
	}
}

// seenBy is the newest change that a run with the start timestamp could see; nil if there was none.
func seenBy(changes []model.AuditedRecord, start tso.Timestamp) *model.AuditedRecord {
	i, _ := slices.BinarySearchFunc(changes, start, func(r model.AuditedRecord, ts tso.Timestamp) int {
		if r.Commit <= ts {
			return -1
		}
		return 1
	})
	if i == 0 {
		return nil
	}
	return &changes[i-1]
}

func (h *guaranteeHistory) total() (changes, acks, runs int) {
	for _, rs := range h.changes {
		changes += len(rs)
	}
	for _, rs := range h.acks {
		acks += len(rs)
	}
	for _, rs := range h.runs {
		runs += len(rs)
	}
	return changes, acks, runs
}
