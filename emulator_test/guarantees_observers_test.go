package emulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// The tables of TestGuarantees. Nothing in guaranteeRuns is observed.
const (
	guaranteeDocs   = "docs"
	guaranteeLeaves = "leaves"
	guaranteeRuns   = "runs"
)

const (
	guaranteeDepth = 10  // of a cascade
	guaranteeWidth = 100 // of a fan
	guaranteeFrom  = 7   // where a countdown begins
	guaranteeBurst = 100 // writes of a cell before there is a worker
)

func chainColumn(i int) string { return fmt.Sprintf("chain%d", i) }

func guaranteeSchema() *percolator.Schema {
	docs := percolator.Table{Name: guaranteeDocs, Observed: []string{"in", "quiet", "held", "fan", "down"}, Weak: []string{"poke"}}
	for i := range guaranteeDepth {
		docs.Observed = append(docs.Observed, chainColumn(i))
	}
	return &percolator.Schema{Tables: []percolator.Table{docs, {Name: guaranteeLeaves, Observed: []string{"leaf"}}, {Name: guaranteeRuns}}}
}

// guaranteeNames lists the observers of each observed column, as an audit wants them.
func guaranteeNames() map[[2]string][]string {
	names := map[[2]string][]string{
		{guaranteeDocs, "in"}: {"steady", "flaky", "batched"}, {guaranteeDocs, "quiet"}: {"quiet"}, {guaranteeDocs, "held"}: {"held"},
		{guaranteeDocs, "fan"}: {"fan"}, {guaranteeDocs, "down"}: {"down"}, {guaranteeLeaves, "leaf"}: {"leaf"},
	}
	for i := range guaranteeDepth {
		names[[2]string{guaranteeDocs, chainColumn(i)}] = []string{chainColumn(i)}
	}
	return names
}

// guaranteeRun is what a run writes about itself, in its own transaction. The row is the run's
// alone: if runs for one change wrote one cell, they would conflict there, and the test would pass
// without any acknowledgment.
type guaranteeRun struct {
	Observer string
	Cell     percolator.Cell
	Change   tso.Timestamp
	Start    tso.Timestamp
	Value    string
	Deleted  bool
	Weak     bool
}

func (r guaranteeRun) row() string {
	return fmt.Sprintf("%s/%s/%s/%020d/%020d", r.Observer, r.Cell.Table, r.Cell.Row, r.Change, r.Start)
}

// guaranteeObservers are the observers of one worker.
type guaranteeObservers struct {
	*observers.Registry
	other    *percolator.Client // of somebody else, who writes while a run is under way
	released func() bool        // from now on stuck rows succeed
	calls    *atomic.Int64
}

const (
	heldFirst, heldSecond = "first", "second"
	stuckPrefix           = "stuck-"
)

func newGuaranteeObservers(other *percolator.Client, released func() bool, calls *atomic.Int64) *guaranteeObservers {
	o := &guaranteeObservers{observers.NewRegistry(), other, released, calls}
	o.observe("steady", guaranteeDocs, "in", nothing)
	o.observe("flaky", guaranteeDocs, "in", o.flaky)
	o.observe("held", guaranteeDocs, "held", o.held)
	o.observe("fan", guaranteeDocs, "fan", fan)
	o.observe("leaf", guaranteeLeaves, "leaf", nothing)
	o.observe("down", guaranteeDocs, "down", countDown)
	o.observe("poke", guaranteeDocs, "poke", nothing)
	o.observeBatch("batched", guaranteeDocs, "in", o.seldom, observers.MaxCells(16), observers.MaxWait(20*time.Millisecond))
	o.observeBatch("poked", guaranteeDocs, "poke", nothing)
	for i := range guaranteeDepth {
		o.observe(chainColumn(i), guaranteeDocs, chainColumn(i), func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			next := "end"
			if i+1 < guaranteeDepth {
				next = chainColumn(i + 1)
			}
			return tx.Set(percolator.Cell{Table: guaranteeDocs, Row: ch.Cell.Row, Column: next}, append(ch.Value, '.'))
		})
	}
	// This one writes nothing at all, not even what it did.
	o.Observe("quiet", guaranteeDocs, "quiet", func(context.Context, *percolator.Txn, observers.Change) error {
		o.calls.Add(1)
		return nil
	})
	return o
}

// observe registers f, whose runs leave a record.
func (o *guaranteeObservers) observe(name, table, column string, f observers.Func) {
	run := o.run(name, f)
	o.Observe(name, table, column, func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		o.calls.Add(1)
		return run(ctx, tx, ch)
	})
}

// observeBatch is observe for an observer of batches.
func (o *guaranteeObservers) observeBatch(name, table, column string, f observers.Func, opts ...observers.Option) {
	run := o.run(name, f)
	o.ObserveBatch(name, table, column, func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
		o.calls.Add(1)
		for _, ch := range changes {
			if err := run(ctx, tx, ch); err != nil {
				return err
			}
		}
		return nil
	}, opts...)
}

// run is f, and leaves a record.
func (o *guaranteeObservers) run(name string, f observers.Func) observers.Func {
	return func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		if err := f(ctx, tx, ch); err != nil {
			return err
		}
		r := guaranteeRun{name, ch.Cell, ch.CommitTS, tx.StartTimestamp(), string(ch.Value), ch.Deleted, ch.Weak}
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return tx.Set(percolator.Cell{Table: guaranteeRuns, Row: r.row(), Column: "run"}, b)
	}
}

func nothing(context.Context, *percolator.Txn, observers.Change) error { return nil }

// flaky fails, or panics, at the first attempt for every third change, and at every attempt for a
// stuck row.
func (o *guaranteeObservers) flaky(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
	switch {
	case strings.HasPrefix(ch.Cell.Row, stuckPrefix) && !o.released():
		return errors.New("stuck")
	case ch.Attempt > 1:
	case ch.CommitTS%6 == 0:
		panic("flaky")
	case ch.CommitTS%6 == 1:
		return errors.New("flaky")
	}
	return nil
}

// seldom fails like flaky, but for so few changes that most batches have none or one of them.
func (o *guaranteeObservers) seldom(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
	if strings.HasPrefix(ch.Cell.Row, stuckPrefix) && !o.released() || ch.Attempt == 1 && ch.CommitTS%40 == 0 {
		return errors.New("seldom")
	}
	return nil
}

// held is interrupted: somebody else writes the cell while it is run for.
func (o *guaranteeObservers) held(ctx context.Context, _ *percolator.Txn, ch observers.Change) error {
	if string(ch.Value) != heldFirst {
		return nil
	}
	_, err := o.other.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(ch.Cell, []byte(heldSecond)) })
	return err
}

func fan(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
	for i := range guaranteeWidth {
		if err := tx.Set(leafOf(ch.Cell.Row, i), ch.Value); err != nil {
			return err
		}
	}
	return nil
}

func leafOf(row string, i int) percolator.Cell {
	return percolator.Cell{Table: guaranteeLeaves, Row: fmt.Sprintf("%s-%03d", row, i), Column: "leaf"}
}

func countDown(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
	n, err := strconv.Atoi(string(ch.Value))
	if err != nil || n == 0 {
		return err
	}
	return tx.Set(ch.Cell, []byte(strconv.Itoa(n-1)))
}
