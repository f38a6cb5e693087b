package combinequeue

import (
	"context"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// Sum is what one fold found for one key.
type Sum[V any] struct {
	Key     string
	Value   V   // the contributions, combined
	Entries int // how many transactions they are of
}

// Observe registers the observers that fold, one for each bucket. apply adds the combined
// contributions v to whatever is kept of key, through tx; it is called for one key after the other,
// at most Config.MaxKeys of them in a transaction, and may add to this queue or others. An error of
// apply fails the whole run: nothing of it is written, and it is repeated.
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

// ObserveBatch is Observe with a function that is called once for all keys of a fold, of which each
// occurs once. [Queue.Into] returns one.
//
// The observers are named after Config.Values.Name and their bucket, and at most one run of each is
// under way in a worker. opts apply to each; observers.Collapse(d) makes a fold wait for more
// contributions, at most d longer.
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

// fold takes a batch of a slice. Applying and deleting are one transaction: of two runs that read
// the same contributions, the one that commits later finds the other's lock or record on the cells
// that it deletes, whatever snapshot it read (I2).
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

// Into returns a function for ObserveBatch that keeps totals in a column: the key is the row, and
// absence counts as nothing. It reads the totals of a fold in one request.
func (q *Queue[V]) Into(total percolator.Column[V]) func(ctx context.Context, tx *percolator.Txn, sums []Sum[V]) error {
	return func(ctx context.Context, tx *percolator.Txn, sums []Sum[V]) error {
		cells := make([]percolator.Cell, len(sums))
		for i, s := range sums {
			cells[i] = total.Cell(s.Key)
		}
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
