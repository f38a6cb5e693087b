package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator/internal/gc"
	"github.com/gopercolator/percolator/percolator/internal/sweep"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Collection tells how far a cycle has come and what it did.
type Collection = model.Collection

// CollectorConfig configures a collector. The zero value is useful.
type CollectorConfig = model.CollectorConfig

// CollectionBounds tells how far collection has come, and how far a cycle of this client's
// Collector would go if it started now.
type CollectionBounds struct {
	Now       tso.Timestamp // the oracle's present
	Safepoint tso.Timestamp // announced: reads at or below it are refused; 0: none was yet
	Announced tso.Timestamp // the oracle's time of that announcement
	Watermark tso.Timestamp // nothing newer has been removed

	Retention time.Duration // Config.Retention of this client, on which Next depends
	Next      tso.Timestamp // what a cycle would announce or finish; at least Safepoint
	HeldBy    *model.Hold   // the hold that keeps Next below the retention; nil: none
}

// TakeHold keeps what a snapshot at ts (0: now) reads from collection for ttl (0: 1 h; at most
// model.MaxHoldTTL, 7 days), whatever the retention. Errors: ErrSnapshotTooOld if ts is at or below
// the safepoint already; ErrInvalidArgument for a ttl or reason beyond the limits, a reason that is
// not UTF-8, and a ts in the oracle's future; ErrTooLarge if there are model.MaxHolds, 1,000,
// already; those of the store and the oracle.
func (a *Admin) TakeHold(ctx context.Context, ts tso.Timestamp, ttl time.Duration, reason string) (model.Hold, error) {
	return a.e.Meta.TakeHold(ctx, ts, ttl, reason)
}

// ExtendHold lets the hold with h's ID expire ttl from now (0: 1 h). ErrSnapshotTooOld: the hold
// has been released, or has expired and been removed. ErrConflict: other callers keep extending it.
func (a *Admin) ExtendHold(ctx context.Context, h model.Hold, ttl time.Duration) (model.Hold, error) {
	return a.e.Meta.ExtendHold(ctx, h, ttl)
}

// KeepHold calls ExtendHold(h, ttl) every ttl/8 until the caller calls stop, which returns when the
// last extension has ended. ttl is positive: 0 does not stand for a default here. held ends when
// the hold is gone, with the cause ErrSnapshotTooOld. KeepHold tries again after other errors, so
// call ExtendHold once more at the end to learn whether the hold has lasted.
func (a *Admin) KeepHold(ctx context.Context, h model.Hold, ttl time.Duration) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(max(ttl/8, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-tick.C:
			}
			if _, err := a.ExtendHold(held, h, ttl); errors.Is(err, model.ErrSnapshotTooOld) {
				cancel(err)
			}
		}
	}()
	return held, func() { cancel(nil); <-ended }
}

// ReleaseHold ends a hold before it expires. Releasing it again does nothing.
func (a *Admin) ReleaseHold(ctx context.Context, h model.Hold) error {
	return a.e.Meta.ReleaseHold(ctx, h)
}

// Holds lists the holds of the instance, oldest snapshot first. They include expired ones that no
// collector has removed yet.
func (a *Admin) Holds(ctx context.Context) ([]model.Hold, error) {
	return a.e.Meta.Holds(ctx)
}

// Collection reads how far collection has come, in any process.
func (a *Admin) Collection(ctx context.Context) (Collection, error) {
	return gc.ReadCollection(ctx, a.e)
}

// CollectionBounds reads how far collection has come and could go (docs/internals/PROTOCOL.md,
// "Collection"). It changes nothing.
func (a *Admin) CollectionBounds(ctx context.Context) (CollectionBounds, error) {
	m, err := a.e.Meta.Refresh(ctx)
	if err != nil {
		return CollectionBounds{}, err
	}
	now, err := a.e.Clock.Next(ctx)
	if err != nil {
		return CollectionBounds{}, err
	}
	b := CollectionBounds{Now: now, Safepoint: m.Safepoint, Announced: m.Now, Watermark: m.Watermark, Retention: a.e.Config.Retention}
	live := slices.DeleteFunc(slices.Clone(m.Holds), func(h model.Hold) bool { return h.Expires <= now })
	b.Next, b.HeldBy = gc.WantedSafepoint(now, b.Retention, live)
	b.Next = max(b.Next, m.Safepoint)
	return b, nil
}

// Collector removes versions that no snapshot can read any more. Its methods may be called
// concurrently; there may be many collectors of one instance.
type Collector struct{ c *gc.Collector }

// NewCollector returns a collector of the client's instance. Workers (package observers) run one by
// themselves. ErrInvalidArgument: cfg.
func (a *Admin) NewCollector(cfg CollectorConfig) (*Collector, error) {
	c, err := gc.NewCollector(a.e, cfg)
	if err != nil {
		return nil, err
	}
	return &Collector{c}, nil
}

// Run collects until ctx ends, and then returns nil; ErrClosed when the client is closed.
func (c *Collector) Run(ctx context.Context) error { return c.c.Run(ctx) }

// Collect runs one cycle now. It takes at least the drain, 80 s with the default Timing, unless
// there is nothing new to collect. If another collector holds the lease, Collect takes part in its
// cycle instead, and returns without an error what it has done itself: Phase is CollectionErase
// then, or CollectionResolve if it has only resolved locks, and Holder the other collector.
//
// Errors: ErrLeased if another collector holds the lease and nothing is left for this one to do;
// ErrLocked if a transaction older than the retention is still alive; ErrConflict if holds were
// taken again and again meanwhile; ErrCorrupt for a lock that cannot be resolved; those of the
// store. The next cycle continues one that failed.
func (c *Collector) Collect(ctx context.Context) (Collection, error) { return c.c.Collect(ctx) }

// Sweeper searches all tables for work that the journal does not lead to
// (docs/internals/PROTOCOL.md, "The journal"), and adds it to the journal. Its methods may be
// called concurrently; there may be many sweepers of one instance.
type Sweeper struct{ s *sweep.Sweeper }

// NewSweeper returns a sweeper of the client's instance. Workers (package observers) run one by
// themselves. ErrInvalidArgument: cfg.
func (a *Admin) NewSweeper(cfg model.SweepConfig) (*Sweeper, error) {
	s, err := sweep.New(a.e, cfg)
	if err != nil {
		return nil, err
	}
	return &Sweeper{s}, nil
}

// Run sweeps when it is due until ctx ends, and then returns nil; ErrClosed when the client is
// closed.
func (s *Sweeper) Run(ctx context.Context) error { return s.s.Run(ctx) }

// Sweep sweeps now and returns what it did. Of a journal that is building it first waits for the
// drain, 80 s with the default Timing, and at the end the journal is ready. Errors:
// ErrSchemaMismatch if the schema disables the journal; ErrLeased if another process sweeps;
// ErrConflict if the journal was turned off meanwhile; ErrCorrupt for an entry that cannot be
// decoded; those of the store. The next sweep continues one that failed, in this or another
// process.
func (s *Sweeper) Sweep(ctx context.Context) (model.Sweep, error) { return s.s.Sweep(ctx) }

// Sweep returns how far the last sweep has come, in any process. It does not sweep: Sweeper.Sweep
// does.
func (a *Admin) Sweep(ctx context.Context) (model.Sweep, error) { return sweep.Read(ctx, a.e) }
