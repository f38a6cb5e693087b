package simulation

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/admin"
)

// transactionLimit bounds a transaction.
const transactionLimit = time.Minute

// transact makes transactions in several sessions, whose callers lose patience now and then.
func (w *world) transact(p *process) {
	var sessions sync.WaitGroup
	for i := range w.cfg.sessions {
		patience := w.dice.next("patience", p.name, strconv.Itoa(i))
		s := w.work.NewSession(p.client, p.name, p.Dead, rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64())))
		sessions.Go(func() {
			for w.lull.wait(p.ctx) == nil {
				w.limited(p.ctx, patience, s.Step)
			}
		})
	}
	sessions.Wait()
}

// lingerer keeps snapshots, so many at a time.
const (
	lingerer  = "lingerer"
	lingerers = 2
)

// linger keeps snapshots for a long time.
func (w *world) linger(p *process) {
	var sessions sync.WaitGroup
	for range lingerers {
		s := w.work.NewSession(p.client, p.name, p.Dead, rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64())))
		sessions.Go(func() {
			for p.ctx.Err() == nil {
				ctx, cancel := context.WithTimeout(p.ctx, 4*transactionLimit)
				s.Linger(ctx)
				cancel()
			}
		})
	}
	sessions.Wait()
}

// visit looks at the store seldom, after about the retention each time, and often at what is beyond
// it, pauses of the sessions or not.
func (w *world) visit(p *process) {
	session := func() *workload.Session {
		return w.work.NewSession(p.client, p.name, p.Dead, rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64())))
	}
	seldom, often := session(), session()
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for retry.Sleep(p.ctx, time.Duration(often.Rand.Int64N(int64(bygoneEvery)))) == nil {
			ctx, cancel := context.WithTimeout(p.ctx, transactionLimit)
			often.Bygone(ctx)
			cancel()
		}
	})
	for p.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(p.ctx, 2*w.cfg.Retention)
		seldom.Visit(ctx, w.cfg.Retention/2+time.Duration(seldom.Rand.Int64N(int64(w.cfg.Retention))))
		cancel()
	}
	sessions.Wait()
}

const bygoneEvery = 2 * time.Second

// collect collects one cycle after the other.
func (w *world) collect(p *process) {
	g, err := admin.New(p.client).NewCollector(w.collectorConfig())
	if err != nil {
		w.problem("%v", err)
		return
	}
	for p.ctx.Err() == nil {
		if done, err := g.Collect(p.ctx); err == nil && done.Versions > 0 && !w.calm.Load() {
			w.tally.add(collected)
		}
		_ = retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(2*w.cfg.LockTTL))))
	}
}

func (w *world) collectorConfig() admin.CollectorConfig {
	return admin.CollectorConfig{Interval: time.Second, Lease: min(max(time.Second, 2*w.cfg.LockTTL), 20*time.Second), RowsPerSecond: 1_000_000}
}
