package simulation

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// expiry is how long permits live, and whether observers hear when one has expired.
type expiry struct {
	ttl    time.Duration
	notify bool
}

func expiryOf(seed uint64, retention time.Duration) expiry {
	r := newDice(seed).next("expiry")
	return expiry{[]time.Duration{time.Second, 3 * time.Second, 10 * time.Second, retention / 2}[r.IntN(4)], r.IntN(4) > 0}
}

// reissues is about how many permits are issued in a lull: then collectors find what has expired.
const reissues = 40

// reissue issues permits in lulls. If the process dies of that, no one looks at the locks that it
// leaves but collectors.
func (w *world) reissue(p *process) {
	s := w.work.NewSession(p.client, p.name, p.Dead, p.rand)
	for d := time.Second; retry.Sleep(p.ctx, d) == nil; {
		if d = w.lull.length() / reissues; d == 0 {
			d = time.Second
			continue
		}
		if w.cfg.intensity > 0 && p.rand.IntN(reissues/2) == 0 && !w.calm.Load() {
			w.killSoon(p, time.Duration(p.rand.Int64N(int64(operatorLives))))
		}
		ctx, cancel := context.WithTimeout(p.ctx, transactionLimit)
		s.Reissue(ctx)
		cancel()
	}
}

// expireAll waits until everything has expired, and requires that cycles of collection find it:
// what expires is found without a sweep (J11). rest lets observers, who hear of it, come to rest.
func (w *world) expireAll(ctx context.Context, p *process, rest func()) {
	collector, err := admin.New(p.client).NewCollector(w.collectorConfig())
	if err != nil {
		w.problem("%v", err)
		return
	}
	w.advance(ctx, p, w.cfg.expiry.ttl)
	// A call first ends another's cycle, without counting its deletions.
	others := true
	for range expiryCycles {
		w.advance(ctx, p, w.longAfter())
		done, err := collector.Collect(ctx)
		w.note("collected what had expired: %+v, %v", done, err)
		if err == nil && !others && done.Expired+done.Postponed == 0 {
			break
		}
		others = err != nil || done.Phase != model.CollectionDone
		rest()
	}
	w.checkExpired()
}

// expiryCycles is how many cycles are enough: one resolves locks, one deletes, and one erases; and
// a slow disk may end some.
const expiryCycles = 3 + cyclesMost

// checkExpired looks for values that have expired, in the raw tables of permits and their indexes.
func (w *world) checkExpired() {
	for _, table := range workload.Expiring() {
		err := w.cluster.Visit(table, func(r layout.Row) bool {
			cells := layout.DecodeRow(table, r)
			for _, column := range slices.Sorted(maps.Keys(cells)) {
				if slices.ContainsFunc(cells[column].Writes, func(r layout.WriteRecord) bool { return r.Kind == layout.KindPut }) {
					w.problem("what has expired is left: %s: %+v", model.Cell{Table: table, Row: r.Key, Column: column}, cells[column].Writes)
				}
			}
			return true
		})
		if err != nil {
			w.problem("%v", err)
		}
	}
}
