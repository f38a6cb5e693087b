package observers

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// resolveStranded resolves the locks in rows that are past their time to live, and returns how
// many. A crash between the commit point and a secondary leaves an observed cell without its
// notification. The roll-forward writes the notification in the mutation of the write record
// (docs/PROTOCOL.md, I10), and the client then dispatches it. No reader is needed.
//
// ResolveLock judges whether a transaction is dead. The time to live only avoids asking about every
// commit under way.
func (w *Worker) resolveStranded(ctx context.Context, rows []layout.Pending) int64 {
	locks := w.expired(ctx, rows)
	if len(locks) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	var resolved atomic.Int64
	var group errgroup.Group
	group.SetLimit(resolveAtOnce)
	for _, l := range locks {
		group.Go(func() error {
			switch r, err := w.engine.Locks.ResolveLock(ctx, l); {
			case err != nil:
				w.log.Warn("observers: a stranded lock could not be resolved", "table", l.Cell.Table, "column", l.Cell.Column, "corrupt", errors.Is(err, percolator.ErrCorrupt))
				w.log.Debug("observers: a stranded lock could not be resolved", "row", l.Cell.Row, "err", err)
			case r == model.LockRolledForward, r == model.LockRolledBack:
				resolved.Add(1)
			}
			return nil // one bad lock does not keep the others
		})
	}
	_ = group.Wait()
	w.counters.resolved.Add(resolved.Load())
	return resolved.Load()
}

// expired returns the locks in rows that are past their time to live by oracle time, the only clock
// that locks are compared with. Without locks it does not ask the oracle.
func (w *Worker) expired(ctx context.Context, rows []layout.Pending) []model.Lock {
	var locks []model.Lock
	var now tso.Timestamp
	for _, row := range rows {
		for _, l := range row.Locks {
			if now == 0 {
				var err error
				if now, err = w.oracleTime(ctx); err != nil {
					return nil // next time
				}
			}
			if now.Sub(l.Placed) > l.TTL {
				locks = append(locks, l)
			}
		}
	}
	return locks
}

func (w *Worker) oracleTime(ctx context.Context) (tso.Timestamp, error) {
	ctx, cancel := context.WithTimeout(ctx, oracleTimeout)
	defer cancel()
	return w.engine.Clock.Next(ctx)
}
