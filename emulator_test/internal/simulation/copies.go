package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// copies are copies of the tables as native backups make them, beside a hold: one after the other,
// some rows of a table before and some after what happens meanwhile. They outlive who takes them.
type copies struct {
	guard guard // of the cluster

	mu      sync.Mutex
	cluster *simulated.Cluster // with the copies; nil: nothing was copied
	hold    model.Hold
	to      tso.Timestamp
	had     workload.Growth // finished before to
	left    []portion       // to be copied, in this order
	over    bool            // the hold is released, or gone
}

// portion is the rows of a table that are copied in one turn.
type portion struct {
	table string
	turn  int
	half  uint64 // of the rows
}

const (
	copyTurns    = 3
	copiesHold   = 6 * 24 * time.Hour
	copiesReason = "copies"
)

// errBusy: a table is being dropped. Who copies tables waits for that.
var errBusy = errors.New("a table is being dropped")

// copyTables takes a hold for copies, and copies all tables in some turns. Between these everybody
// goes on with what they do.
func (w *world) copyTables(p *process) {
	for retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(copyEvery)))) == nil && w.lull.wait(p.ctx) == nil {
		if !w.copies.begun() {
			w.meet(p.ctx, func(im *workload.Import) bool { return im.Loads() })
			if err := w.holdForCopies(p.ctx, p); err != nil {
				w.note("%s: %v", p.name, err)
				if w.cfg.intensity == 0 && p.ctx.Err() == nil && !errors.Is(err, errBusy) {
					w.problem("%s: %v", p.name, err)
					return
				}
				continue
			}
		}
		if w.copies.last() {
			w.meet(p.ctx, func(im *workload.Import) bool { return !im.Loads() })
		}
		if err := w.copies.turn(w.cluster); err != nil {
			w.problem("%s: %v", p.name, err)
		}
		if w.copies.complete() {
			break
		}
	}
	for w.endCopies(p.ctx, p) != nil && retry.Sleep(p.ctx, time.Second) == nil {
	}
	<-p.ctx.Done()
}

// copyEvery bounds the time between two turns, beside lulls.
const copyEvery = time.Second

// meet waits until the import that is next has come so far, if copies are to meet imports.
func (w *world) meet(ctx context.Context, enough func(*workload.Import) bool) {
	im := w.work.NextImport()
	if w.cfg.copiesMeetImports && im != nil {
		w.waitFor(ctx, func() bool { return enough(im) })
	}
}

// awaitCopies has an import wait, if copies are to meet it, until the hold for them is taken.
func (w *world) awaitCopies(ctx context.Context) {
	if w.cfg.copiesMeetImports {
		w.waitFor(ctx, w.copies.begun)
	}
}

// waitFor waits until something has happened, for as long as that may take.
func (w *world) waitFor(ctx context.Context, happened func() bool) {
	drain := catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing))
	for until := time.Now().Add(6 * drain); !happened() && !w.calm.Load() && time.Now().Before(until); {
		if retry.Sleep(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

// holdForCopies takes the hold. While it does so, some of those are killed or stopped who would
// otherwise leave nothing for a repair to decide.
func (w *world) holdForCopies(ctx context.Context, p *process) error {
	end, err := w.operators.alone(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := w.releaseCopies(ctx, p); err != nil { // of an operator that died
		return err
	}
	m, err := p.client.Engine().Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	if len(m.Schema.Dropping) > 0 {
		return errBusy
	}
	w.growth.mu.Lock()
	had := w.growth.finished
	w.growth.mu.Unlock()
	w.leaveLocks(ctx, p.rand)
	h, to, err := admin.New(p.client).TakeBackupHold(ctx, copiesHold, copiesReason, nil)
	if err != nil {
		return err
	}
	w.note("%s: hold %+v, to %d", p.name, h, to)
	if m, err := p.client.Engine().Meta.Refresh(ctx); err == nil && h.Timestamp > m.Safepoint+1 {
		w.problem("the hold for copies at %d leaves collection room above the safepoint %d (I23)", h.Timestamp, m.Safepoint)
	}
	cfg := w.cfg.store
	cfg.Trace, cfg.Sent, cfg.Applied = nil, nil, w.copies.guard.note
	var last []string
	if w.cfg.copiesMeetImports {
		last = []string{model.MetaTable} // which says that the import has ended
	}
	w.copies.begin(simulated.NewCluster(cfg), h, to, had, w.cluster.Tables(), last, p.rand)
	return nil
}

// leaveLocks kills some clients in the middle of their work, and stops the workers, who would
// resolve what these leave.
func (w *world) leaveLocks(ctx context.Context, r *rand.Rand) {
	if w.cfg.intensity == 0 || w.calm.Load() {
		return
	}
	drain := catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing))
	for _, sl := range w.slots {
		switch d := 2*drain + time.Duration(r.Int64N(int64(2*drain))); {
		case strings.HasPrefix(sl.name, "worker"):
			w.suspendFor(ctx, sl.running(), simulated.Stopped, processStopped, d)
		case strings.HasPrefix(sl.name, "client") && r.IntN(2) == 0 && sl.running() != nil && w.tally.add(processKilled):
			down := time.Duration(r.Int64N(int64(5 * time.Second)))
			w.ending.Go(func() { sl.restart(sl.ctx, down) })
		}
	}
}

// releaseCopies releases every hold for copies.
func (w *world) releaseCopies(ctx context.Context, p *process) error {
	a := admin.New(p.client)
	holds, err := a.Holds(ctx)
	for _, h := range holds {
		if h.Reason == copiesReason {
			err = errors.Join(err, a.ReleaseHold(ctx, h))
		}
	}
	return err
}

// endCopies releases the hold. If it had gone before, nothing can be made of the copies.
func (w *world) endCopies(ctx context.Context, p *process) error {
	if w.copies.done() {
		return nil
	}
	holds, err := admin.New(p.client).Holds(ctx)
	if err != nil {
		return err
	}
	now, err := p.oracle.Next(ctx)
	if err != nil {
		return err
	}
	w.copies.end(now, holds)
	return w.releaseCopies(ctx, p)
}

// finishCopies copies what is left; all of it, with what the dead have left behind, if nobody has
// come to that.
func (w *world) finishCopies(ctx context.Context, p *process) {
	if w.cfg.repairs && !w.copies.begun() {
		if err := w.holdForCopies(ctx, p); err != nil {
			w.note("%s: no copies: %v", p.name, err)
		}
	}
	for w.copies.begun() && !w.copies.complete() {
		if err := w.copies.turn(w.cluster); err != nil {
			w.problem("copying: %v", err)
			return
		}
	}
	if err := errors.Join(w.endCopies(ctx, p), w.releaseCopies(ctx, p)); err != nil {
		w.problem("releasing the hold for copies: %v", err)
	}
}

func (c *copies) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cluster != nil
}

func (c *copies) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cluster != nil && len(c.left) == 0
}

// last reports whether the last turn is next.
func (c *copies) last() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.left) > 0 && c.left[0].turn == copyTurns-1
}

func (c *copies) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// begin decides when which rows of the tables are copied; last: tables that come in the last turn.
func (c *copies) begin(to *simulated.Cluster, h model.Hold, ts tso.Timestamp, had workload.Growth, tables, last []string, r *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cluster, c.hold, c.to, c.had = to, h, ts, had
	for _, table := range tables {
		both := r.IntN(copyTurns)
		for half := range uint64(2) {
			turn := both
			if r.IntN(2) == 0 {
				turn = r.IntN(copyTurns)
			}
			if slices.Contains(last, table) {
				turn = copyTurns - 1
			}
			c.left = append(c.left, portion{table, turn, half})
		}
	}
	slices.SortStableFunc(c.left, func(a, b portion) int { return a.turn - b.turn })
}

// turn copies what is next. With the last turn come the tables that are newer than the hold.
func (c *copies) turn(from *simulated.Cluster) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for turn := 0; len(c.left) > 0 && (turn == 0 || c.left[0].turn < turn); c.left = c.left[1:] {
		next := c.left[0]
		turn = next.turn + 1
		if from.Families(next.table) == nil {
			continue // it had been dropped before, and is deleted now
		}
		if err := from.Copy(next.table, c.cluster, func(key string) bool { return hash(key)&1 == next.half }); err != nil {
			return err
		}
	}
	if len(c.left) > 0 {
		return nil
	}
	for _, table := range from.Tables() {
		if !slices.Contains(c.cluster.Tables(), table) {
			if err := from.Copy(table, c.cluster, func(string) bool { return true }); err != nil {
				return err
			}
		}
	}
	return nil
}

// end takes note of whether the hold was there until the end.
func (c *copies) end(now tso.Timestamp, holds []model.Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.hold.Expires <= now || !slices.Contains(holds, c.hold) {
		c.cluster = nil
	}
}
