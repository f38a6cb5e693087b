package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// Observers registers the observers of the workload, for a worker of the name. Two copy the lists
// and count their elements, the latter in batches; one is weak, and so is one in batches.
func (w *Workload) Observers(name string) *observers.Registry {
	r := observers.NewRegistry()
	observe := func(observer, table, column string, f func(*attempt, observers.Change) error) {
		run := w.observer(name, observer, f)
		r.Observe(observer, table, column, func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			return run(ctx, tx, []observers.Change{ch})
		})
	}
	observe("copy", lists, "items", func(a *attempt, ch observers.Change) error {
		if ch.Deleted {
			return a.delete(cell(copies, ch.Cell.Row, "copy"))
		}
		return a.set(cell(copies, ch.Cell.Row, "copy"), ch.Value)
	})
	r.ObserveBatch("count", lists, "items", w.observer(name, "count", func(a *attempt, ch observers.Change) error {
		if ch.Deleted {
			return a.delete(cell(copies, ch.Cell.Row, "count"))
		}
		return a.set(cell(copies, ch.Cell.Row, "count"), a.unique(fmt.Sprint(strings.Count(string(ch.Value), " "))))
	}), observers.MaxCells(8), observers.MaxWait(20*time.Millisecond))
	observe("tally", pings, "poke", func(a *attempt, ch observers.Change) error {
		return a.set(cell(pings, ch.Cell.Row, "tally"), a.unique(""))
	})
	r.ObserveBatch("pile", pings, "poke", w.observer(name, "pile", func(a *attempt, ch observers.Change) error {
		return a.set(cell(pings, ch.Cell.Row, "pile"), a.unique(""))
	}))
	return r
}

// observer records a run, of one change or of a batch. Who commits it is the worker, so the outcome
// shows in its receipt only.
func (w *Workload) observer(worker, name string, f func(*attempt, observers.Change) error) observers.BatchFunc {
	return func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
		a := &attempt{s: &Session{Workload: w}, rec: w.History.Begin(worker, "run of "+name), id: w.ids.Add(1)}
		a.use(tx)
		for _, ch := range changes {
			a.rec.Observes(history.Run{Observer: name, Cell: history.Cell(ch.Cell), Change: ch.CommitTS, Weak: ch.Weak})
			if !ch.Weak {
				a.rec.ReadAt(history.Cell(ch.Cell), ch.Value, ch.CommitTS)
			}
		}
		if a.id%4 == 0 { // long enough for changes to come in between
			wait(ctx, time.Duration(a.id*7919%20_000)*time.Microsecond)
		}
		for _, ch := range changes {
			if err := f(a, ch); err != nil {
				return err
			}
		}
		return a.receipt()
	}
}
