package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// deletions are the deletions of ranges in an episode, one after the other. They outlive operators.
type deletions struct {
	mu       sync.Mutex
	underWay *workload.Deletion
	began    []tso.Timestamp // when each of them that deleted anything began
}

// next is the deletion that is under way, or another one.
func (d *deletions) next(r *rand.Rand) workload.Deletion {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.underWay == nil {
		d.underWay = &workload.Deletions[r.IntN(len(workload.Deletions))]
	}
	return *d.underWay
}

func (d *deletions) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.underWay = nil
}

func (d *deletions) begin(p admin.DeleteProgress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.began, p.Before) {
		d.began = append(d.began, p.Before)
	}
}

// newest is when the newest deletion began that had begun at a timestamp.
func (d *deletions) newest(at tso.Timestamp) (began tso.Timestamp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.began {
		if b <= at {
			began = max(began, b)
		}
	}
	return began
}

// deleterLives is how long an operator lives, at most, that dies of a deletion.
const deleterLives = 100 * time.Millisecond

// deleteRanges deletes one range after the other, and goes on with the deletion of a process that
// died.
func (w *world) deleteRanges(p *process) {
	for retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(6*time.Second)))) == nil && w.lull.wait(p.ctx) == nil {
		if w.cfg.intensity > 0 && p.rand.IntN(3) == 0 && !w.calm.Load() {
			w.killSoon(p, time.Duration(p.rand.Int64N(int64(deleterLives))))
		}
		var both sync.WaitGroup
		d := w.deletions.next(p.rand)
		for range 1 + p.rand.IntN(4)/3 { // now and then two share the work
			s := w.work.NewSession(p.client, p.name, p.Dead, rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64())))
			both.Go(func() {
				if err := w.deleteRange(p.ctx, p, s, d); err != nil {
					w.note("%s: deleting %v: %v", p.name, d, err)
				}
			})
		}
		both.Wait()
	}
}

// deleteRange comes to the end of a deletion, and looks at what is left.
func (w *world) deleteRange(ctx context.Context, p *process, s *workload.Session, d workload.Deletion) error {
	done, err := admin.New(p.client).DeleteRange(ctx, d.Table, d.Rows, admin.DeleteOptions{
		Columns: d.Columns, RowsPerSecond: 1_000_000, Concurrency: 2, RowsPerTransaction: 4, CellsPerTransaction: 5, SaveEvery: 1, Progress: w.deletions.begin,
	})
	if done.Before > 0 { // it may have deleted, or even ended, and the store's answer is lost
		w.deletions.begin(done)
	}
	if err != nil {
		return err
	}
	w.deletions.end()
	w.tally.add(rangesDeleted)
	s.ViewDeleted(ctx, d, done.Before)
	return nil
}

// finishDeletion ends the deletion under way, or makes another one.
func (w *world) finishDeletion(ctx context.Context, p *process) {
	d := w.deletions.next(p.rand)
	s := w.work.NewSession(p.client, p.name, p.Dead, p.rand)
	if err := w.deleteRange(ctx, p, s, d); err != nil {
		w.problem("the deletion of %v does not end after the last fault: %v", d, err)
	}
}
