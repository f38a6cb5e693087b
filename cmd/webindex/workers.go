package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/summary"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// workers run the observers of the index until stop is called.
type workers struct {
	client *percolator.Client
	list   []*observers.Worker
	group  *errgroup.Group
	ctx    context.Context // ends when a worker fails
	end    context.CancelFunc
}

// startWorkers starts one worker for each client, as if each were a process of its own.
func startWorkers(ctx context.Context, clients []*percolator.Client, log *slog.Logger) (*workers, error) {
	w := &workers{client: clients[0]}
	for _, c := range clients {
		worker, err := observers.NewWorker(c, index.Registry(index.Collapse), observers.Config{Logger: log})
		if err != nil {
			return nil, err
		}
		w.list = append(w.list, worker)
	}
	ctx, w.end = context.WithCancel(ctx)
	w.group, w.ctx = errgroup.WithContext(ctx)
	for _, worker := range w.list {
		w.group.Go(func() error { return worker.Run(w.ctx) })
	}
	return w, nil
}

// waitIdle waits until no observer has work left, here or elsewhere.
func (w *workers) waitIdle(ctx context.Context) error {
	err := w.list[0].WaitIdle(w.ctx)
	if err != nil && w.ctx.Err() != nil && ctx.Err() == nil {
		return errStopped
	}
	return err
}

var errStopped = errors.New("the workers have stopped")

// stop ends the workers, after the runs that are in flight.
func (w *workers) stop() error {
	w.end()
	return w.group.Wait()
}

// runs counts what the observers have done so far.
func (w *workers) runs() summary.Worked {
	sum := summary.Worked{Observers: map[string]int64{}}
	for _, worker := range w.list {
		s := worker.Stats()
		sum.ObserverRuns += s.Runs
		sum.Parked += int(s.Parked)
		for name, o := range s.Observers {
			sum.Observers[index.ObserverName(name)] += o.Runs
		}
	}
	return sum
}

// runsSince is what the observers have done since an earlier count.
func (w *workers) runsSince(before summary.Worked) summary.Worked {
	sum := w.runs()
	sum.ObserverRuns -= before.ObserverRuns
	for name, n := range before.Observers {
		sum.Observers[name] -= n
	}
	return sum
}

// queued is how many cells wait for an observer, as far as these workers know.
func (w *workers) queued() int {
	n := 0
	for _, worker := range w.list {
		s := worker.Stats()
		n += s.Queued + s.Running
	}
	return n
}

// failures says which observer of the store's has been given up on; nil if none. The index is not
// complete then.
func (w *workers) failures(ctx context.Context) error {
	for p, err := range observers.ListParked(ctx, w.client) {
		if err != nil {
			return err
		}
		return fmt.Errorf("observer %s keeps failing on %s: %s", p.Observer, p.Cell, p.Reason)
	}
	return nil
}
