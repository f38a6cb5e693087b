package emulator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// Observers registers the observers of the workload, for a worker of the name. Two copy the lists
// and count their elements, one is weak.
func (w *workload) Observers(name string) *observers.Registry {
	r := observers.NewRegistry()
	r.Observe("copy", lists, "items", w.observer(name, "copy", func(a *attempt, ch observers.Change) error {
		if ch.Deleted {
			return a.delete(workloadCell(copies, ch.Cell.Row, "copy"))
		}
		return a.set(workloadCell(copies, ch.Cell.Row, "copy"), ch.Value)
	}))
	r.Observe("count", lists, "items", w.observer(name, "count", func(a *attempt, ch observers.Change) error {
		if ch.Deleted {
			return a.delete(workloadCell(copies, ch.Cell.Row, "count"))
		}
		return a.set(workloadCell(copies, ch.Cell.Row, "count"), a.unique(fmt.Sprint(strings.Count(string(ch.Value), " "))))
	}))
	r.Observe("tally", pings, "poke", w.observer(name, "tally", func(a *attempt, ch observers.Change) error {
		return a.set(workloadCell(pings, ch.Cell.Row, "tally"), a.unique(""))
	}))
	return r
}

// observer records a run. Who commits it is the worker, so the outcome shows in its receipt only.
func (w *workload) observer(worker, name string, f func(*attempt, observers.Change) error) observers.Func {
	return func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		a := &attempt{s: &workloadSession{workload: w}, rec: w.History.Begin(worker, "run of "+name), id: w.ids.Add(1)}
		a.use(tx)
		a.rec.Observes(observerRun{Observer: name, Cell: historyCell(ch.Cell), Change: ch.CommitTS, Weak: ch.Weak})
		if !ch.Weak {
			a.rec.ReadAt(historyCell(ch.Cell), ch.Value, ch.CommitTS)
		}
		if rand.IntN(4) == 0 { // long enough for changes to come in between
			wait(ctx, rand.N(20*time.Millisecond))
		}
		if err := f(a, ch); err != nil {
			return err
		}
		return a.receipt()
	}
}
