package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// Observers registers the observers of the workload, for a worker of the name and its client. Two
// copy the lists and count their elements, the latter in batches; one is weak, and so is one in
// batches. Others fold contributions, deliver exports, follow chains and decide claims.
func (w *Workload) Observers(worker string, client *percolator.Client) *observers.Registry {
	r := observers.NewRegistry()
	w.observe(r, worker, "copy", lists, "items", func(_ context.Context, a *attempt, ch observers.Change) error {
		if ch.Deleted {
			return a.delete(cell(copies, ch.Cell.Row, "copy"))
		}
		return a.set(cell(copies, ch.Cell.Row, "copy"), ch.Value)
	}, observers.HeadStart(10*time.Millisecond))
	r.ObserveBatch("count", lists, "items", w.observer(worker, "count", func(_ context.Context, a *attempt, ch observers.Change) error {
		return a.follow(cell(copies, ch.Cell.Row, "count"), ch, fmt.Sprint(strings.Count(string(ch.Value), " ")))
	}), observers.MaxCells(8), observers.MaxWait(20*time.Millisecond))
	w.observe(r, worker, "tally", pings, "poke", func(_ context.Context, a *attempt, ch observers.Change) error {
		return a.set(cell(pings, ch.Cell.Row, "tally"), a.unique(""))
	}, observers.Collapse(30*time.Millisecond))
	r.ObserveBatch("pile", pings, "poke", w.observer(worker, "pile", func(_ context.Context, a *attempt, ch observers.Change) error {
		return a.set(cell(pings, ch.Cell.Row, "pile"), a.unique(""))
	}))
	w.observeContributions(r, worker)
	w.observeExports(r, worker, client)
	w.observeChains(r, worker)
	w.observeClaims(r, worker)
	return r
}

// Observed lists the observers of each column that is not weak, keyed by table and column.
func Observed() map[[2]string][]string {
	names := map[[2]string][]string{}
	for _, o := range allObservers() {
		if column := [2]string{o.Table, o.Column}; !o.Weak {
			names[column] = append(names[column], o.Name)
		}
	}
	return names
}

// reaction is what an observer does for a change.
type reaction func(context.Context, *attempt, observers.Change) error

// observe registers an observer for one change at a time.
func (w *Workload) observe(r *observers.Registry, worker, name, table, column string, f reaction, opts ...observers.Option) {
	run := w.observer(worker, name, f)
	r.Observe(name, table, column, func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		return run(ctx, tx, []observers.Change{ch})
	}, append(opts, observers.CommitTogether())...)
}

// observer records a run, of one change or of a batch. Who commits it is the worker, so the outcome
// shows in its receipt only.
func (w *Workload) observer(worker, name string, f reaction) observers.BatchFunc {
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
			if err := f(ctx, a, ch); err != nil {
				return err
			}
		}
		return a.receipt()
	}
}
