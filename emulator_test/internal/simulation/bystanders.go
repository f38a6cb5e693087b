package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// bystanders use an instance before it is repaired, and live through the repair. Nothing of what
// they have begun may be seen after it.
type bystanders struct {
	repaired chan struct{} // closed when it is
	sessions sync.WaitGroup

	mu        sync.Mutex
	committed []stray
	refused   int
	ran       []ran
}

// ran is a run of an observer, committed or not.
type ran struct {
	observer string
	cell     percolator.Cell
	began    tso.Timestamp
}

// stray is a transaction whose client was told that it committed.
type stray struct{ start, commit tso.Timestamp }

// inspector begins the name of the process that resolves locks by hand.
const inspector = "inspector"

// straying is how many transactions each of the processes that stray have under way.
const straying = 4

// populateBeside starts them.
func (w *world) populateBeside(ctx context.Context, by *bystanders) error {
	stray := func(p *process) { w.stray(p, by) }
	for _, j := range []struct {
		name string
		work func(*process)
	}{{"straggler-1", stray}, {"straggler-2", stray}, {inspector, w.inspect}, {"idler", func(p *process) { w.idle(p, by) }}, {"collector", w.collect}} {
		if err := w.occupy(ctx, j.name, j.work); err != nil {
			return err
		}
	}
	return nil
}

// stray begins transactions that take until anywhere in a repair, or until it is over.
func (w *world) stray(p *process, by *bystanders) {
	for i := range straying {
		r := rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64()))
		by.sessions.Go(func() {
			for p.ctx.Err() == nil && !by.over() {
				w.strayOnce(p, by, r, i%2 == 0)
				_ = retry.Sleep(p.ctx, time.Duration(r.Int64N(int64(100*time.Millisecond))))
			}
		})
	}
}

func (by *bystanders) over() bool {
	select {
	case <-by.repaired:
		return true
	default:
		return false
	}
}

func (w *world) strayOnce(p *process, by *bystanders, r *rand.Rand, patient bool) {
	tx, err := p.client.Begin(p.ctx)
	if err != nil {
		return
	}
	for _, c := range workload.Stray(r) {
		if r.IntN(2) == 0 {
			_, _ = tx.Get(p.ctx, c)
		}
		if err := tx.Set(c, []byte("stray")); err != nil {
			w.problem("%s: %v", p.name, err)
		}
	}
	var impatient <-chan time.Time
	if longest := 2 * catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing)); !patient {
		impatient = time.After(time.Duration(r.Int64N(int64(longest))))
	}
	select {
	case <-by.repaired:
		if r.IntN(4) > 0 { // else the client may take the repair for unfinished
			_, _ = p.client.Engine().Meta.Refresh(p.ctx)
		}
	case <-p.ctx.Done():
	case <-impatient:
	}
	commit, err := tx.Commit(p.ctx)
	by.mu.Lock()
	defer by.mu.Unlock()
	if err == nil {
		by.committed = append(by.committed, stray{tx.StartTimestamp(), commit})
		return
	}
	by.refused++
}

// inspect has locks in its hands before the fence of a repair is in force, and resolves them when
// it is, as an operator does by hand.
func (w *world) inspect(p *process) {
	a := admin.New(p.client)
	rest := catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing)) / drainLooks
	var seen []model.Lock
	var looked time.Time
	for retry.Sleep(p.ctx, time.Duration(1+p.rand.Int64N(int64(inspectEvery)))) == nil {
		m, err := p.client.Engine().Meta.Refresh(p.ctx)
		if err != nil || m.Fence == nil {
			continue
		}
		if m.Fence.Repair.Phase == model.RepairDrain {
			if time.Since(looked) >= rest {
				seen, looked = w.locks(p), time.Now()
			}
			continue
		}
		var all sync.WaitGroup
		for _, l := range seen {
			all.Go(func() { _, _ = a.ResolveLock(p.ctx, l) })
		}
		all.Wait()
		seen = w.locks(p)
	}
}

// When the inspector looks. A repair takes half a second, after a drain of many: most of the locks
// that are there then, the dead have left.
const (
	inspectEvery = 40 * time.Millisecond // bounds the time until the next look
	drainLooks   = 16                    // about, while a repair drains
)

// locks are all that can be found.
func (w *world) locks(p *process) (seen []model.Lock) {
	for _, t := range p.client.Schema().Tables {
		for pending, err := range admin.New(p.client).ScanPending(p.ctx, t.Name, percolator.All()) {
			if err != nil {
				break
			}
			seen = append(seen, pending.Locks...)
		}
	}
	return seen
}

// idle runs observers that do nothing. What they do before the repair, it has them do again.
func (w *world) idle(p *process, by *bystanders) {
	note := func(observer string, c percolator.Cell, began tso.Timestamp) {
		by.mu.Lock()
		defer by.mu.Unlock()
		by.ran = append(by.ran, ran{observer, c, began})
	}
	for p.ctx.Err() == nil {
		schema := p.client.Schema()
		worker, err := observers.NewWorker(p.client, workload.Idle(schema, note), observers.Config{DisableCollection: true, MaxBackoff: time.Second, DrainTimeout: 2 * time.Second})
		if err == nil {
			err = worker.Run(whileKnown(p, schema))
		}
		w.note("%s ended: %v", p.name, err)
		_ = retry.Sleep(p.ctx, time.Second)
	}
}

// after is the runs that began after a repair.
func (by *bystanders) after(until tso.Timestamp) (runs []ran) {
	for _, a := range by.ran {
		if a.began > until {
			runs = append(runs, a)
		}
	}
	return runs
}
