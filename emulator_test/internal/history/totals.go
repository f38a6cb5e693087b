package history

import (
	"cmp"
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// queued is what a transaction does with totals and with ordered queues.
type queued struct {
	adds, sums []amount
	exports    []export
}

type amount struct {
	total string
	n     int64
}

// Contributes records that the transaction adds to a total, if it commits.
func (t *Txn) Contributes(total string, n int64) {
	t.queue(func(q *queued) { q.adds = append(q.adds, amount{total, n}) })
}

// Total records that the transaction, or the snapshot, found a total to be n.
func (t *Txn) Total(total string, n int64) {
	t.queue(func(q *queued) { q.sums = append(q.sums, amount{total, n}) })
}

func (t *Txn) queue(add func(*queued)) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if t.queued == nil {
		t.queued = &queued{}
	}
	add(t.queued)
}

// checkTotals: in every snapshot a total is the sum of what had committed by then, each
// contribution once.
func (c *Checker) checkTotals() {
	type step struct {
		at   tso.Timestamp
		n    int64
		of   *Txn
		read bool
	}
	steps := map[string][]step{}
	for _, t := range c.queued {
		for _, a := range t.queued.adds {
			if t.committed {
				steps[a.total] = append(steps[a.total], step{at: t.at, n: a.n, of: t})
			}
		}
	}
	for _, t := range c.queued {
		for _, a := range t.queued.sums {
			steps[a.total] = append(steps[a.total], step{at: t.start, n: a.n, of: t, read: true})
		}
	}
	for _, total := range sortedKeys(steps) {
		// At equal timestamps, reads follow writes.
		slices.SortStableFunc(steps[total], func(a, b step) int { return cmp.Compare(a.at, b.at) })
		sum, newest := int64(0), any("nobody")
		for _, s := range steps[total] {
			if !s.read {
				sum, newest = sum+s.n, s.of
				continue
			}
			if c.report.Totals++; s.n != sum {
				c.report.add(anomalyTotal, "%s found %d in %s; what had committed by then makes %d, the newest of it by %s", s.of, s.n, total, sum, newest)
			}
		}
	}
}
