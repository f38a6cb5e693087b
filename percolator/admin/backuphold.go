package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A hold at a snapshot lets the collector go on up to there. A row that is copied before it comes
// by still has a lock, and the primary's row, copied later, no longer has the record: nothing tells
// that the transaction committed. So this hold stands right above the safepoint, and collection
// stands still: what it had announced it has finished before the first row is copied (I23).

// TakeBackupHold prepares copies of the tables that are taken one after the other, such as
// Bigtable's own backups. It returns the hold and, in cut, the timestamp to which Repair can bring
// the copies: from now on each row has the write record or the lock of every transaction that
// committed at or below cut. Until the hold is released nothing is collected, and weak
// notifications leave traces. ttl is as for TakeHold, and counts from when TakeBackupHold returns;
// it has to outlast the copies.
//
// It finishes a collection that has started, which may take a drain (RequestLifetime and MetaMaxAge
// of Schema.Timing and a little more, 80 s by default), and waits for two more. Before each wait it
// calls waiting, unless that is nil, with the time that all remaining waits take. If it fails it
// releases the hold.
func (a *Admin) TakeBackupHold(ctx context.Context, ttl time.Duration, reason string, waiting func(time.Duration)) (h model.Hold, cut tso.Timestamp, err error) {
	if h, err = a.holdAtSafepoint(ctx, ttl, reason); err != nil {
		return model.Hold{}, 0, err
	}
	if cut, err = a.settle(ctx, waiting); err == nil {
		h, err = a.e.Meta.HoldForCopies(ctx, h, ttl, cut)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), meta.ReleaseTimeout)
		defer cancel()
		return model.Hold{}, 0, errors.Join(err, a.ReleaseHold(ctx, h))
	}
	return h, cut, nil
}

func (a *Admin) holdAtSafepoint(ctx context.Context, ttl time.Duration, reason string) (h model.Hold, err error) {
	for range meta.MaxTries {
		m, err := a.e.Meta.Refresh(ctx)
		if err != nil {
			return h, err
		}
		if h, err = a.TakeHold(ctx, m.Safepoint+1, ttl, reason); !errors.Is(err, percolator.ErrSnapshotTooOld) {
			return h, err
		}
	}
	return h, fmt.Errorf("percolator: %w: collectors announced another safepoint %d times", percolator.ErrConflict, meta.MaxTries)
}

// settle waits until collection stands still and every client knows of the hold, takes a timestamp,
// and waits until everything that commits at or below it has committed: a commit request is sent
// within the request lifetime after its timestamp was received.
func (a *Admin) settle(ctx context.Context, waiting func(time.Duration)) (to tso.Timestamp, err error) {
	if waiting == nil {
		waiting = func(time.Duration) {}
	}
	d := catalog.DrainTime(a.e.Store.Timing)
	if err := a.finishCollection(ctx, func(left time.Duration) { waiting(left + 2*d) }); err != nil {
		return 0, err
	}
	waiting(2 * d)
	if err := retry.Sleep(ctx, d); err != nil {
		return 0, err
	}
	if to, err = a.e.Clock.Next(ctx); err != nil {
		return 0, err
	}
	return to, retry.Sleep(ctx, d)
}

// finishCollection returns when the GC watermark has reached the safepoint.
func (a *Admin) finishCollection(ctx context.Context, waiting func(time.Duration)) error {
	g, err := a.NewCollector(CollectorConfig{Waiting: waiting})
	if err != nil {
		return err
	}
	for pause := retry.NewBackoff(100*time.Millisecond, 2*time.Second); ; {
		m, err := a.e.Meta.Refresh(ctx)
		if err != nil || m.Watermark >= m.Safepoint {
			return err
		}
		if _, err = g.Collect(ctx); err == nil {
			continue
		}
		// Another collector, a transaction or a hold was in the way: the next try may succeed.
		if !errors.Is(err, ErrLeased) && !errors.Is(err, percolator.ErrLocked) && !errors.Is(err, percolator.ErrConflict) {
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}
