package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
)

// The tables of totals, and of what is to be added to them.
const (
	totals        = "totals"
	contributions = "contributions"
)

const totalKeys = 3

func totalKey(n int) string { return fmt.Sprintf("total%d", n) }

// total is the column of totals. Contributions are positive, so no value comes twice.
func total() percolator.Column[int64] { return percolator.Int64(totals, "sum") }

// newContributions returns the queue. It is so small that folds leave something over.
func newContributions() *combinequeue.Queue[int64] {
	return must(combinequeue.New(combinequeue.Config[int64]{
		Values: percolator.Int64(contributions, "fold"), Combine: func(a, b int64) int64 { return a + b }, Buckets: 2, Shards: 3, MaxEntries: 6, MaxKeys: 2,
	}))
}

// must is for configurations that are constant.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// contribute adds to totals, now and then to several, or to one several times, and now and then
// beside a write that conflicts.
func (s *Session) contribute(ctx context.Context) {
	blind := s.Rand.IntN(6) == 0
	s.transact(ctx, options{kind: "contribute", blind: blind}, func(ctx context.Context, a *attempt) error {
		for range 1 + s.Rand.IntN(2)*s.Rand.IntN(4) {
			key, n := totalKey(s.Rand.IntN(totalKeys)), 1+s.Rand.Int64N(1000)
			if err := s.contributions.Add(a.tx, key, n); err != nil {
				return err
			}
			a.rec.Contributes(key, n)
		}
		if !blind && s.Rand.IntN(4) == 0 {
			return s.countUp(ctx, a)
		}
		return nil
	})
}

// observeContributions registers the observers that fold.
func (w *Workload) observeContributions(r *observers.Registry, worker string) {
	into := w.contributions.Into(total())
	w.contributions.ObserveBatch(r, func(ctx context.Context, tx *percolator.Txn, sums []combinequeue.Sum[int64]) error {
		a := &attempt{s: &Session{Workload: w}, rec: w.History.Begin(worker, "fold"), id: w.ids.Add(1)}
		a.rec.Since(0) // the worker began it
		a.use(tx)
		if err := into(ctx, tx, sums); err != nil {
			corrupt(a.rec, err)
			return err
		}
		for _, sum := range sums {
			c := total().Cell(sum.Key)
			v, _, err := tx.Buffered(c)
			if err != nil {
				return err
			}
			a.rec.Put(history.Cell(c), v)
		}
		return a.receipt()
	})
}

// viewTotals reads some totals in one snapshot, or all of them, folded or not.
func (s *Session) viewTotals(ctx context.Context) {
	var opts []percolator.ReadOption
	if ts, ok := s.somePast(); ok && s.Rand.IntN(3) == 0 {
		opts = append(opts, percolator.AsOfTimestamp(ts))
	}
	s.View(ctx, "view totals", func(ctx context.Context, r Reader) error {
		if s.Rand.IntN(3) == 0 {
			return r.allTotals(ctx, false)
		}
		for _, n := range s.Rand.Perm(totalKeys)[:1+s.Rand.IntN(2)] {
			if err := r.total(ctx, totalKey(n)); err != nil {
				return err
			}
		}
		return nil
	}, opts...)
}

// total reads a total as its queue tells it.
func (r Reader) total(ctx context.Context, key string) error {
	n, err := newContributions().Value(ctx, r, total(), key)
	if err != nil && !errors.Is(err, percolator.ErrNotFound) {
		corrupt(r.rec, err)
		return err
	}
	r.rec.Total(key, n)
	return nil
}

// allTotals reads what is folded and what is not, which at rest is nothing.
func (r Reader) allTotals(ctx context.Context, rested bool) error {
	folded, err := r.scan(ctx, totals, "", "", "sum")
	if err != nil {
		return err
	}
	sums := map[string]int64{}
	for _, e := range folded {
		if sums[e.Cell.Row], err = total().Decode(e.Cell.Row, e.Value); err != nil {
			return err
		}
	}
	left := 0
	for sum, err := range newContributions().All(ctx, r) {
		if err != nil {
			corrupt(r.rec, err)
			return err
		}
		sums[sum.Key] += sum.Value
		left++
	}
	if rested && left > 0 {
		r.rec.Broken("%d contributions have not been folded", left)
	}
	for n := range totalKeys {
		r.rec.Total(totalKey(n), sums[totalKey(n)])
	}
	return nil
}
