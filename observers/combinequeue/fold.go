package combinequeue

import (
	"context"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// Sum is what a fold found for one key.
type Sum[V any] struct {
	Key     string
	Value   V   // the contributions, combined
	Entries int // how many transactions they are of
}

// Observe registers the observers that fold, one for each bucket. apply adds v, the combined
// contributions, to whatever is kept of key, through tx. It is called for one key after the other,
// at most Config.MaxKeys of them in a transaction, and may add to this queue or others. If it
// returns an error, the run writes nothing and is repeated. [observers.NewWorker] reports a nil
// apply.
//
// To read the totals of all keys in one request, use ObserveBatch.
func (q *Queue[V]) Observe(r *observers.Registry, apply func(ctx context.Context, tx *percolator.Txn, key string, v V) error,
	opts ...observers.Option,
) {
	if apply == nil {
		q.ObserveBatch(r, nil, opts...)
		return
	}
	q.ObserveBatch(r, func(ctx context.Context, tx *percolator.Txn, sums []Sum[V]) error {
		for _, s := range sums {
			if err := apply(ctx, tx, s.Key, s.Value); err != nil {
				return err
			}
		}
		return nil
	}, opts...)
}

// ObserveBatch is Observe with one call for all keys of a fold, each of which occurs once.
// [Queue.Into] returns a suitable apply.
//
// The observers are named after Config.Values.Name and their bucket, and a worker runs one of each
// at a time. opts apply to each; observers.Collapse(d) makes a fold wait up to d for more
// contributions, and observers.After makes it wait until those that contribute are idle.
func (q *Queue[V]) ObserveBatch(r *observers.Registry, apply func(ctx context.Context, tx *percolator.Txn, sums []Sum[V]) error,
	opts ...observers.Option,
) {
	var f observers.Func
	if apply != nil { // else NewWorker reports it
		f = func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			return q.fold(ctx, tx, ch, apply)
		}
	}
	sliced.Observe(r, q.cfg.Values.Name, q.Table(), func(int) observers.Func { return f }, opts)
}

// Observers returns the names of the observers that fold, so that others can wait until nothing is
// left to fold: observers.After(limit, q.Observers()...).
func (q *Queue[V]) Observers() []string { return sliced.Observers(q.cfg.Values.Name, q.cfg.Buckets) }

// fold applies and deletes a batch of a slice in one transaction. Of two runs that read the same
// contributions, the one that commits later finds the other's lock or record on the cells that it
// deletes, whatever its snapshot (I2).
func (q *Queue[V]) fold(ctx context.Context, tx *percolator.Txn, ch observers.Change,
	apply func(context.Context, *percolator.Txn, []Sum[V]) error,
) error {
	b, err := q.collect(ctx, tx, ch.Cell.Row)
	if err != nil {
		return err
	}
	if len(b.cells) == 0 {
		if b.locked {
			return observers.Snooze(q.cfg.LockWait)
		}
		return nil
	}
	if err := apply(ctx, tx, b.sums); err != nil {
		return err
	}
	for _, c := range b.cells {
		if err := tx.Delete(c); err != nil {
			return err
		}
	}
	if b.more || b.locked {
		return tx.Notify(ch.Cell)
	}
	return nil
}

// Into returns a function for ObserveBatch that keeps totals in a column. The key is the row. It
// reads the totals of a fold in one request and treats a missing one as no contribution.
func (q *Queue[V]) Into(total percolator.Column[V]) func(ctx context.Context, tx *percolator.Txn, sums []Sum[V]) error {
	return func(ctx context.Context, tx *percolator.Txn, sums []Sum[V]) error {
		cells := ordered.Map(sums, func(s Sum[V]) percolator.Cell { return total.Cell(s.Key) })
		before, err := tx.GetMulti(ctx, cells...)
		if err != nil {
			return err
		}
		for i, s := range sums {
			v := s.Value
			if before[i] != nil {
				old, err := total.Decode(s.Key, before[i])
				if err != nil {
					return err
				}
				v = q.cfg.Combine(old, v)
			}
			if err := total.Set(tx, s.Key, v); err != nil {
				return err
			}
		}
		return nil
	}
}
