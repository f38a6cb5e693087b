package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/audit"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// repairer begins the names of the processes that repair.
const repairer = "repairer"

// repairCopies makes an instance of the copies, repairs it beside processes that use it already,
// and hands what it holds to the judges: as a snapshot of the original.
func (w *world) repairCopies(ctx context.Context) {
	c := &w.copies
	if !c.complete() {
		return
	}
	other := &world{
		cfg: w.cfg, dice: newDice(w.cfg.Seed ^ hash(repairer)), tally: w.tally, cluster: c.cluster, history: w.history, work: w.work, begun: w.begun, awake: true,
	}
	other.calm.Store(true)
	var err error
	if other.oracle, err = newOracle(other.dice, w.tally, other.oracleRate); err == nil {
		err = other.repairAll(ctx, c)
		err = errors.Join(append(other.oracle.close(), err)...)
	}
	if err != nil {
		w.problem("%s: %v", repairer, err)
	}
	w.adopt("repaired", other)
	w.tally.add(repaired)
}

// adopt makes what has been said of another world known in this one.
func (w *world) adopt(name string, other *world) {
	for _, n := range other.notes {
		w.note("%s: %s", name, n)
	}
	for _, found := range other.problems {
		w.problem("%s: %s", name, found)
	}
}

// repairAll repairs the copies and judges them.
func (w *world) repairAll(ctx context.Context, c *copies) error {
	p, err := w.open(ctx, "judge")
	if err != nil {
		return err
	}
	return errors.Join(w.repairAndCompare(ctx, p, c), p.leave())
}

func (w *world) repairAndCompare(ctx context.Context, p *process, c *copies) error {
	greatest, err := w.greatest(p.client.Schema())
	if err != nil {
		return err
	}
	w.oracle.setClocks(w.timeOfRepair(c.to, greatest))
	before, err := p.client.Engine().Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	by := &bystanders{repaired: make(chan struct{})}
	report, err := w.repairBeside(ctx, c.to, by)
	if report.Found > 0 || report.Audited > 0 {
		w.problem("the repair found %d: %v, and its audit %d: %v", report.Found, report.Findings, report.Audited, report.Audit)
	}
	if err != nil {
		return err
	}
	w.note("repaired: %+v", report)
	w.note("beside it %d transactions committed, %d did not", len(by.committed), by.refused)
	changed := false // by who began as the repair had just ended
	for _, s := range by.committed {
		if s.start <= report.Until && s.commit > report.Until {
			w.problem("transaction %d, from before a repair until %d, committed at %d", s.start, report.Until, s.commit)
		}
		changed = changed || s.start > report.Until
	}
	for _, found := range c.guard.found {
		w.problem("%s", found)
	}
	if now, err := p.oracle.Next(ctx); err != nil || min(now, report.Until) <= greatest {
		w.problem("after a repair until %d the oracle is at %d, %v; the tables held %d", report.Until, now, err, greatest)
	}
	w.advance(ctx, p, 2*w.cfg.LockTTL)
	return w.compareCopies(ctx, p, c, before, by.after(report.Until), changed)
}

// greatest is the greatest timestamp of any cell.
func (w *world) greatest(s *percolator.Schema) (greatest tso.Timestamp, err error) {
	for _, t := range s.Tables {
		for _, name := range catalog.BigtableNames(t) {
			verr := w.cluster.Visit(name, func(r layout.Row) bool {
				for _, it := range r.Items {
					greatest = max(greatest, tso.Timestamp(it.Timestamp/1000))
				}
				return true
			})
			err = errors.Join(err, verr)
		}
	}
	return greatest, err
}

// mostBehind bounds how far the oracle is behind the copies: a repair does not raise it by more
// than an hour.
const mostBehind = 30 * time.Minute

// timeOfRepair is when the copies are repaired, by the oracle: now and then it has lost its record,
// and is behind them.
func (w *world) timeOfRepair(to, greatest tso.Timestamp) time.Time {
	r := w.dice.next("time")
	if greatest <= to || r.IntN(2) == 0 {
		return max(greatest, to).Add(time.Duration(1 + r.Int64N(int64(time.Minute)))).Time()
	}
	behind := time.Duration(r.Int64N(int64(min(greatest.Sub(to), mostBehind))))
	return greatest.Add(-behind).Time()
}

// repairTries is how often a repair may be interrupted before the faults end.
const repairTries = 12

// repairBeside repairs beside others. Who repairs dies, and another process goes on.
func (w *world) repairBeside(ctx context.Context, to tso.Timestamp, by *bystanders) (report model.RepairReport, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := w.populateBeside(ctx, by); err != nil {
		return report, err
	}
	w.calm.Store(false)
	w.cluster.SetRates(w.cfg.rates)
	calm := sync.OnceFunc(func() {
		w.calm.Store(true)
		w.cluster.SetRates(simulated.Rates{})
	})
	defer calm()
	windy, still := context.WithCancel(ctx)
	defer still()
	var weather sync.WaitGroup
	weather.Go(func() { w.weather(windy, gusts) })
	r := w.dice.next(repairer)
	if r.IntN(2) == 0 { // else what clients have left behind is still there
		_ = retry.Sleep(ctx, time.Duration(r.Int64N(int64(time.Second))))
	}
	for n := 1; ; n++ {
		if n == repairTries {
			still() // before who starts again gives up, as it does when there are no more faults
			weather.Wait()
			calm()
		}
		report, err = w.repairOnce(ctx, fmt.Sprintf("%s-%d", repairer, n), r, to)
		if err == nil || n > repairTries || ctx.Err() != nil || errors.Is(err, percolator.ErrSnapshotTooOld) || errors.Is(err, admin.ErrNotHeld) || errors.Is(err, admin.ErrRepairFindings) {
			break
		}
		w.note("%s-%d: %v", repairer, n, err)
	}
	still()
	weather.Wait()
	calm()
	close(by.repaired)
	by.sessions.Wait()
	stop()
	w.end()
	return report, err
}

// repairOnce is an attempt of a process, which may die of it.
func (w *world) repairOnce(ctx context.Context, name string, r *rand.Rand, to tso.Timestamp) (model.RepairReport, error) {
	p, err := w.open(ctx, name)
	if err != nil {
		return model.RepairReport{}, err
	}
	lives := time.Duration(r.Int64N(int64(repairTakes)))
	if r.IntN(2) == 0 {
		lives += catalog.DrainTime(catalog.EffectiveTiming(w.cfg.Timing))
	}
	if w.cfg.intensity > 0 && !w.calm.Load() && r.IntN(2) == 0 && w.tally.add(processKilled) {
		defer time.AfterFunc(lives, p.kill).Stop()
	}
	report, err := admin.New(p.client).Repair(p.ctx, model.RepairOptions{To: to, Raise: func(ctx context.Context, above tso.Timestamp) error {
		return tso.Raise(ctx, w.oracle.durable, above)
	}})
	if err == nil && p.Dead() {
		err = errors.New("it died of it")
	}
	w.ending.Go(func() { _ = p.leave() })
	return report, err
}

// repairTakes is about how long a repair takes after its drain.
const repairTakes = 500 * time.Millisecond

// compareCopies reads what was repaired, as the snapshot and as it is at present, has every
// observer run that has to run again, and audits the tables. changed: the present is not what was
// repaired.
func (w *world) compareCopies(ctx context.Context, p *process, c *copies, before meta.State, again []ran, changed bool) error {
	m, err := p.client.Engine().Meta.Refresh(ctx)
	if err != nil {
		return err
	}
	for table, im := range before.Imports {
		if im.Since > c.to && m.Imports[table].Phase == "" {
			w.problem("table %s, into which an import ended at %d, is open after a repair to %d", table, im.Since, c.to)
		}
		for _, e := range im.Erased {
			if e.Start <= c.to && e.At > c.to && m.Imports[table].Phase == "" {
				w.problem("table %s, from which an import from %d was erased at %d, is open after a repair to %d", table, e.Start, e.At, c.to)
			}
		}
	}
	complete := func(name string) bool { return m.Imports[name].Phase == "" && !m.Indexes[name].Building }
	r := w.work.Restored("repaired", c.to, p.client.Schema(), c.had, complete)
	defer r.End()
	for _, a := range again {
		r.Due(a.observer, a.cell)
	}
	if err := r.ReadAt(ctx, p.client); err != nil {
		return fmt.Errorf("reading what was repaired at %d: %w", c.to, err)
	}
	if changed {
		w.note("at present there is more than was repaired")
	} else if err := r.Read(ctx, p.client, 0); err != nil {
		return fmt.Errorf("reading what was repaired: %w", err)
	}
	for table, im := range m.Imports {
		if im.Phase == "" {
			continue
		}
		if _, err := loader.AbortImport(ctx, p.client, table, nil, nil); err != nil {
			return fmt.Errorf("aborting the import into %s: %w", table, err)
		}
	}
	if err := w.runOnce(ctx, p, r); err != nil {
		return fmt.Errorf("observing what was repaired: %w", err)
	}
	found, err := audit.Run(ctx, func(_ context.Context, table string, visit func(layout.Row)) error {
		return w.cluster.Visit(table, func(r layout.Row) bool {
			visit(r)
			return true
		})
	}, model.AuditConfig{Schema: p.client.Schema(), SkipNotifications: true})
	if err == nil && found.Found > 0 {
		w.problem("the auditor of what was repaired: %s", found)
	}
	return err
}
