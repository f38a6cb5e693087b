package admin

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/gc"
	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/tso"
)

// Hold says that nothing that a snapshot at Timestamp reads is collected before Expires.
type Hold = meta.Hold

// Collection tells how far a cycle has come and what it did.
type Collection = gc.Collection

// CollectionBounds says how far collection has come and how far a cycle of this client's Collector
// would go if it began now.
type CollectionBounds = gc.CollectionBounds

// CollectionPhase is a step of a cycle.
type CollectionPhase = gc.CollectionPhase

// Collector removes versions that no snapshot can read any more. Its methods may be called
// concurrently; there may be many collectors of one instance.
type Collector = gc.Collector

// CollectorConfig is how a collector works. The zero value is useful.
type CollectorConfig = gc.CollectorConfig

const (
	// MaxHoldTTL is the longest time for which a hold is taken or extended at once.
	MaxHoldTTL = meta.MaxHoldTTL
	// MaxHolds is how many holds an instance may have before TakeHold refuses more: every client reads
	// them with the safepoint. As they are counted first and stored afterwards, those that are taken
	// at the same time may exceed it.
	MaxHolds = meta.MaxHolds
	// MaxHoldReasonBytes bounds the text that says what a hold is for.
	MaxHoldReasonBytes = meta.MaxHoldReasonBytes
	CollectionDrain    = gc.CollectionDrain
	CollectionResolve  = gc.CollectionResolve
	CollectionErase    = gc.CollectionErase
	CollectionDone     = gc.CollectionDone
)

// TakeHold keeps what a snapshot at ts reads from collection for ttl (0: 1 h; at most MaxHoldTTL),
// whatever the retention. ts 0 is now. Errors: ErrSnapshotTooOld if ts is at or below the safepoint
// already; ErrInvalidArgument for a ttl or reason beyond the limits and a ts in the oracle's
// future; ErrTooLarge when there are MaxHolds of them.
func (a *Admin) TakeHold(ctx context.Context, ts tso.Timestamp, ttl time.Duration, reason string) (Hold, error) {
	return a.e.Meta.TakeHold(ctx, ts, ttl, reason)
}

// ExtendHold has the hold with h's ID expire ttl from now (0: 1 h). ErrSnapshotTooOld: it has been
// released, or has expired and been removed. ErrConflict: somebody else extends it all the time.
func (a *Admin) ExtendHold(ctx context.Context, h Hold, ttl time.Duration) (Hold, error) {
	return a.e.Meta.ExtendHold(ctx, h, ttl)
}

// ReleaseHold ends a hold before it expires. Releasing it again does nothing.
func (a *Admin) ReleaseHold(ctx context.Context, h Hold) error {
	return a.e.Meta.ReleaseHold(ctx, h)
}

// Holds lists the holds of the instance, oldest snapshot first; among them may be expired ones that
// no collector has removed yet.
func (a *Admin) Holds(ctx context.Context) ([]Hold, error) {
	return a.e.Meta.Holds(ctx)
}

// Collection reads how far collection has come, whoever is at work.
func (a *Admin) Collection(ctx context.Context) (Collection, error) {
	return gc.ReadCollection(ctx, a.e)
}

// CollectionBounds reads how far collection has come (docs/PROTOCOL.md, "Collection"). It changes
// nothing.
func (a *Admin) CollectionBounds(ctx context.Context) (CollectionBounds, error) {
	return gc.ReadBounds(ctx, a.e)
}

// NewCollector returns a collector of the client's instance. Workers (package observers) run one by
// themselves.
func (a *Admin) NewCollector(cfg CollectorConfig) (*Collector, error) {
	return gc.NewCollector(a.e, cfg)
}
