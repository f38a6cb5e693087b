package locks

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// Locks that were met together are resolved together. A client that has died may leave hundreds in
// one page of a scan: its transaction is decided once, by the first of them, and the others follow
// in parallel. Each cell still takes a request of its own, as only its own lock allows to change it
// (I9).

// Met is a lock that was read, and what has become of it.
type Met struct {
	Cell model.Cell
	Lock layout.LockRecord

	Resolved
	Err error // ErrCorrupt: the lock contradicts the protocol
}

// id names the lock's transaction.
func (m *Met) id() TxnID { return TxnID{m.Lock.Primary, m.Lock.StartTS} }

// ResolveEach is Resolve for locks that the caller has read together. An error ends it, except that
// ErrCorrupt stays with its lock.
func (r *Resolver) ResolveEach(ctx context.Context, met []*Met, seen Sight) error {
	return r.together(ctx, met, func(ctx context.Context, m *Met) (settled bool, err error) {
		m.Resolved, err = r.Resolve(ctx, m.Cell, m.Lock, seen)
		return m.Resolution == model.LockAlive, err
	})
}

// together calls decide for one lock of each transaction, and resolves the transaction's others
// unless decide has settled what becomes of them, too. The lock on the primary goes first: where
// others do, its cell would be resolved twice.
func (r *Resolver) together(ctx context.Context, met []*Met, decide func(context.Context, *Met) (settled bool, err error)) error {
	byTxn := make(map[TxnID][]*Met, 1)
	var order [][]*Met
	for _, m := range met {
		byTxn[m.id()] = append(byTxn[m.id()], m)
	}
	for _, m := range met {
		of := byTxn[m.id()]
		if of[0] != m {
			continue
		}
		for i := range of {
			if of[i].Cell == of[i].Lock.Primary {
				of[0], of[i] = of[i], of[0]
			}
		}
		order = append(order, of)
	}
	settled := make([]bool, len(order))
	err := r.parallel(ctx, len(order), func(ctx context.Context, i int) (err error) {
		settled[i], err = decide(ctx, order[i][0])
		return order[i][0].keep(err)
	})
	if err != nil {
		return err
	}
	var others []*Met
	for i, of := range order {
		for _, m := range of[1:] {
			if settled[i] && of[0].Err == nil {
				m.Resolved = of[0].Resolved
			} else {
				others = append(others, m)
			}
		}
	}
	return r.parallel(ctx, len(others), func(ctx context.Context, i int) (err error) {
		m := others[i]
		m.Resolved, err = r.Resolve(ctx, m.Cell, m.Lock, SeenEarlier)
		return m.keep(err)
	})
}

// keep leaves ErrCorrupt with the lock.
func (m *Met) keep(err error) error {
	if errors.Is(err, model.ErrCorrupt) {
		m.Err = err
		return nil
	}
	return err
}

// parallel calls f for 0 to n-1, MaxParallelism at a time, until one fails.
func (r *Resolver) parallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, r.Config.MaxParallelism))
	for i := range n {
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}
