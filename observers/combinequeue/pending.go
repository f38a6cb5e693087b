package combinequeue

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// Pending returns what is queued for key in the snapshot of r and not yet folded: the combined
// value and the number of transactions, or the zero value and 0. With a total read from the same r
// it is exact.
//
// It reads everything queued in the key's bucket within the retention. It waits for transactions
// that are committing to the bucket until ctx ends (percolator.ErrLocked).
func (q *Queue[V]) Pending(ctx context.Context, r percolator.Reader, key string) (Sum[V], error) {
	sum := Sum[V]{Key: key}
	for c, err := range q.contributions(ctx, r, percolator.Prefix(sliced.Prefix(sliced.Of(key, q.cfg.Buckets)))) {
		if err != nil {
			return Sum[V]{}, err
		}
		if c.Key != key {
			continue
		}
		if sum.Entries++; sum.Entries == 1 {
			sum.Value = c.Value
		} else {
			sum.Value = q.cfg.Combine(sum.Value, c.Value)
		}
	}
	return sum, nil
}

// Value returns the total of key, kept by [Queue.Into], as if everything in the snapshot of r had
// been folded. It costs as much as Pending. percolator.ErrNotFound: there is neither a total nor a
// contribution.
func (q *Queue[V]) Value(ctx context.Context, r percolator.Reader, total percolator.Column[V], key string) (V, error) {
	v, err := total.Get(ctx, r, key)
	absent := errors.Is(err, percolator.ErrNotFound)
	if err != nil && !absent {
		return v, err
	}
	sum, perr := q.Pending(ctx, r, key)
	switch {
	case perr != nil:
		return v, perr
	case sum.Entries == 0:
		return v, err
	case absent:
		return sum.Value, nil
	}
	return q.cfg.Combine(v, sum.Value), nil
}

// All streams every contribution queued in the snapshot of r, one Sum with Entries 1 for each, in
// no useful order. It is for checks of a whole store. An error ends the stream.
func (q *Queue[V]) All(ctx context.Context, r percolator.Reader) iter.Seq2[Sum[V], error] {
	return q.contributions(ctx, r, percolator.All())
}

func (q *Queue[V]) contributions(ctx context.Context, r percolator.Reader, rows percolator.Range) iter.Seq2[Sum[V], error] {
	return func(yield func(Sum[V], error) bool) {
		for e, err := range r.Scan(ctx, q.cfg.Values.Table, rows) {
			if err != nil {
				yield(Sum[V]{}, fmt.Errorf("combinequeue: %w", err))
				return
			}
			key, ok := keyOf(e.Cell.Column)
			if !ok {
				continue
			}
			v, err := q.cfg.Values.DecodeEntry(r, e)
			if !yield(Sum[V]{key, v, 1}, err) || err != nil {
				return
			}
		}
	}
}
