package workload

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
)

// Loads are written one after the other, and so many there are of an episode.
const (
	MaxLoads  = 3
	loadItems = 40
)

func loadRow(load, item int) string { return fmt.Sprintf("load%d-%03d", load, item) }

// Load loads the items of a load, each of a row of its own. It goes on where an earlier one ended.
func (w *Workload) Load(ctx context.Context, process string, c *percolator.Client, load int) error {
	cfg := loader.Config{
		Name: fmt.Sprintf("load %d", load), Concurrency: 3, ItemsPerTransaction: 4,
		CheckpointInterval: 50 * time.Millisecond, DrainTimeout: time.Second,
	}
	_, err := loader.Load(ctx, c, cfg, loader.Job[int]{
		Source: loader.Replay(items, nil),
		Write: func(ctx context.Context, tx *percolator.Txn, items []int) error {
			return w.write(ctx, tx, process, load, items)
		},
		Failed: func(f loader.Failure[int]) error { return f.Err },
	})
	if err == nil {
		w.mu.Lock()
		w.loaded = max(w.loaded, load+1)
		w.mu.Unlock()
	}
	return err
}

// items are those of a load, some of which come late.
func items(ctx context.Context) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range loadItems {
			if i%8 == 7 {
				wait(ctx, 20*time.Millisecond)
			}
			if !yield(i, ctx.Err()) {
				return
			}
		}
	}
}

// write writes the items that are not there yet, and records it. Whether the loader commits shows
// in the receipt only.
func (w *Workload) write(ctx context.Context, tx *percolator.Txn, process string, load int, items []int) error {
	a := &attempt{s: &Session{Workload: w}, rec: w.History.Begin(process, "load"), id: w.ids.Add(1)}
	a.use(tx)
	a.rec.Since(0) // the loader began it
	cells := make([]percolator.Cell, len(items))
	for i, item := range items {
		cells[i] = cell(registers, loadRow(load, item), "item")
	}
	values, err := a.getMulti(ctx, cells...)
	if err != nil {
		return err
	}
	for i, v := range values {
		if v == nil {
			if err := a.set(cells[i], a.unique("item")); err != nil {
				return err
			}
		}
	}
	return a.receipt()
}

// Loaded is how many loads have ended.
func (w *Workload) Loaded() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loaded
}

// checkLoads: a load that has ended has left nothing out.
func (r Reader) checkLoads(ctx context.Context, ended int) error {
	for load := range ended {
		es, err := r.scan(ctx, registers, loadRow(load, 0), loadRow(load, loadItems))
		if err != nil {
			return err
		}
		if len(es) != loadItems {
			r.rec.Broken("load %d has ended with %d of %d items", load, len(es), loadItems)
		}
	}
	return nil
}

// viewLoads looks at the loads that had ended when the session asks.
func (s *Session) viewLoads(ctx context.Context) {
	ended := s.Loaded()
	s.View(ctx, "view loads", func(ctx context.Context, r Reader) error { return r.checkLoads(ctx, ended) })
}
