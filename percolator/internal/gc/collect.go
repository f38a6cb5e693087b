package gc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

const (
	collectRows     = 512         // rows of a page
	collectCells    = 20_000      // cells after which a page ends with its row
	collectParallel = 16          // conditional requests at once
	aliveWait       = time.Minute // for a transaction that is older than the retention and alive
)

// begin announces the safepoint of a new cycle and drains; false: there is nothing to collect.
func (s *collecting) begin(ctx context.Context) (bool, error) {
	now, safepoint, err := s.announce(ctx)
	if err != nil || safepoint == 0 {
		return false, err
	}
	before := s.state
	s.state.Unjournaled = 0
	if m, _ := s.e.Meta.Snapshot(); m.Schema.DisableJournal {
		s.state.Unjournaled = m.Version
	}
	s.state.Collection = model.Collection{Safepoint: safepoint, Started: now, Holder: before.Holder, Expires: before.Expires}
	if err := s.enter(ctx, model.CollectionDrain, map[string][]byte{}); err != nil {
		s.state = before
		return false, err
	}
	if err := s.drain(ctx); err != nil {
		return false, err
	}
	return true, s.enter(ctx, model.CollectionResolve, nil)
}

// announce stores the safepoint: as new as the retention allows, below every hold. The condition of
// the request is that no hold at or below it was taken meanwhile, and that it does not go back.
func (s *collecting) announce(ctx context.Context) (now, safepoint tso.Timestamp, err error) {
	for range meta.MaxTries {
		if now, err = s.e.Clock.Next(ctx); err != nil {
			return 0, 0, err
		}
		m, err := s.e.Meta.Refresh(ctx)
		if err == nil {
			err = m.RefuseRepair()
		}
		if err != nil {
			return 0, 0, err
		}
		holds, err := s.e.Meta.RemoveExpired(ctx, m, now)
		if err != nil {
			return 0, 0, err
		}
		want, _ := WantedSafepoint(now, s.e.Config.Retention, holds)
		switch {
		case want <= m.Watermark && m.Safepoint <= m.Watermark:
			return now, 0, nil
		case want <= m.Safepoint: // announced by a collector that did not come to the end
			return now, m.Safepoint, nil
		}
		refused, err := s.e.Meta.Retry(ctx, func(ctx context.Context) (bool, error) { return s.e.Meta.StoreSafepoint(ctx, want, now) })
		if err != nil {
			return 0, 0, err
		}
		if !refused {
			_, err = s.e.Meta.Refresh(ctx)
			return now, want, err
		}
	}
	return 0, 0, fmt.Errorf("percolator: %w: the safepoint could not be announced %d times, because holds were taken or another collector was faster", model.ErrConflict, meta.MaxTries)
}

// WantedSafepoint is as new as the retention allows, and below every hold.
func WantedSafepoint(now tso.Timestamp, retention time.Duration, live []model.Hold) (want tso.Timestamp, heldBy *model.Hold) {
	want = now.Add(-retention)
	for _, h := range live {
		if h.Timestamp <= want {
			want, heldBy = h.Timestamp-1, &h
		}
	}
	return want, heldBy
}

// drain waits by this process's monotonic clock: an oracle whose clock jumps forward would make
// young requests look old.
func (s *collecting) drain(ctx context.Context) error {
	d := catalog.DrainTime(s.e.Store.Timing)
	s.cfg.Waiting(d)
	return s.rest(ctx, d)
}

// rest waits and keeps the lease meanwhile.
func (s *collecting) rest(ctx context.Context, whole time.Duration) error {
	return WaitLeased(ctx, s.cfg.Lease, whole, s.keep)
}

// finish does what is left of a cycle after its drain. A cycle ends as it began, by the journal or
// by passes, unless the journal has gone meanwhile: passes reach all that it led to.
func (s *collecting) finish(ctx context.Context) error {
	// Tables and observed columns that were added before the drain began must be known, or their
	// locks would be passed over.
	if _, err := s.e.Meta.Refresh(ctx); err != nil {
		return err
	}
	byJournal := s.e.Meta.CollectByJournal(s.state.Safepoint)
	if s.state.Phase == model.CollectionResolve {
		s.state.ByJournal = byJournal
	}
	if s.state.ByJournal && byJournal {
		return s.finishByJournal(ctx)
	}
	if s.state.Phase == model.CollectionResolve {
		if err := s.eachPage(ctx, store.Locks(s.state.Safepoint), s.resolveLocks); err != nil {
			return err
		}
		if err := s.publish(ctx); err != nil {
			return err
		}
		if err := s.enter(ctx, model.CollectionErase, map[string][]byte{}); err != nil {
			return err
		}
	}
	if err := s.eachPage(ctx, store.Garbage(), s.eraseRows); err != nil {
		return err
	}
	if err := s.optional(s.emptyJournal(ctx)); err != nil {
		return err
	}
	return s.enter(ctx, model.CollectionDone, map[string][]byte{})
}

// resolveLocks resolves every lock of some rows up to the safepoint.
func (s *collecting) resolveLocks(ctx context.Context, table string, rows []layout.Row) error {
	var resolved atomic.Int64
	held, corrupt := locksOf(table, rows)
	err := eachLock(ctx, held, &resolved, s.resolveLock)
	s.state.Locks += resolved.Load()
	return errors.Join(corrupt, err)
}

// resolveLock resolves one lock. It waits for a transaction that is alive: older than the
// retention, it will soon refuse to commit.
func (s *collecting) resolveLock(parent context.Context, cell model.Cell, l layout.LockRecord) error {
	// The wait must end within the lease, which resolveLock does not renew.
	ctx, cancel := context.WithTimeout(parent, min(aliveWait, s.cfg.Lease/2))
	defer cancel()
	pause := retry.NewBackoff(locks.MinLockWait, time.Second)
	for {
		became, err := s.e.Locks.Resolve(ctx, cell, l, locks.SeenEarlier)
		if err != nil {
			return err
		}
		if became.Resolution != model.LockAlive {
			return nil
		}
		if pause.Wait(ctx) != nil {
			if err := parent.Err(); err != nil {
				return fmt.Errorf("percolator: collection: waiting for the lock of transaction %d on %s: %w", l.StartTS, cell, err)
			}
			return catalog.CellError(model.ErrLocked, cell, "transaction %d is alive although it began before the safepoint; collection goes on when it has ended", l.StartTS)
		}
	}
}

// publish lets collectors remove what is older than the GC watermark. A client that finds no record
// of an older transaction then knows that the record may be gone (I16).
func (s *collecting) publish(ctx context.Context) error {
	watermark := s.state.Safepoint
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, meta.ColumnWatermark, store.MetaTimestamp, binary.BigEndian.AppendUint64(nil, uint64(watermark)))
	newer := store.CellAtLeast(meta.ColumnWatermark, watermark)
	if _, err := s.e.Meta.Retry(ctx, func(ctx context.Context) (bool, error) {
		return s.e.Store.CheckAndMutate(ctx, model.MetaTable, meta.RowKey, newer, nil, mut)
	}); err != nil {
		return err
	}
	_, err := s.e.Meta.Refresh(ctx)
	return err
}

// eraseRows removes the garbage of some rows. It needs no condition where no column is observed: no
// observer waits for a deletion.
func (s *collecting) eraseRows(ctx context.Context, table string, rows []layout.Row) error {
	info, known := s.e.Meta.Catalog.Load().Tables[table]
	if !known { // it was dropped meanwhile
		return nil
	}
	var did erased
	x := &eraser{s.Collector, s.state.Safepoint, s.keep}
	err := x.page(ctx, info, rows, &did)
	all := tallyOf(&s.state.Collection)
	all.add(did.tally(len(rows)))
	setTally(&s.state.Collection, all)
	return err
}
