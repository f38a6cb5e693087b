package gc

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/meta"
	"github.com/gopercolator/percolator/tso"
)

// CollectionBounds tells how far collection has come and how far a cycle of this client's Collector
// would go if it began now.
type CollectionBounds struct {
	Now       tso.Timestamp // the oracle's present
	Safepoint tso.Timestamp // announced: reads at or below it are refused; 0: none was yet
	Announced tso.Timestamp // the oracle's time when it was
	Watermark tso.Timestamp // nothing newer has been removed

	Retention time.Duration // Config.Retention of this client, by which Next is meant; other collectors may have another
	Next      tso.Timestamp // the safepoint that a cycle would announce, or finish; not above Safepoint: nothing new to collect
	HeldBy    *meta.Hold    // the hold that keeps Next below what Retention asks for; nil: none does
}

// ReadBounds reads how far collection has come and could go (docs/PROTOCOL.md, "Collection"). It
// changes nothing.
func ReadBounds(ctx context.Context, e *engine.Engine) (CollectionBounds, error) {
	m, err := e.Meta.Refresh(ctx)
	if err != nil {
		return CollectionBounds{}, err
	}
	now, err := e.Clock.Next(ctx)
	if err != nil {
		return CollectionBounds{}, err
	}
	b := CollectionBounds{Now: now, Safepoint: m.Safepoint, Announced: m.Now, Watermark: m.Watermark, Retention: e.Config.Retention}
	var live []meta.Hold
	for _, h := range m.Holds {
		if h.Expires > now {
			live = append(live, h)
		}
	}
	b.Next, b.HeldBy = wantedSafepoint(now, e.Config.Retention, live)
	b.Next = max(b.Next, m.Safepoint)
	return b, nil
}

// wantedSafepoint is as new as the retention allows, and below every hold.
func wantedSafepoint(now tso.Timestamp, retention time.Duration, live []meta.Hold) (want tso.Timestamp, heldBy *meta.Hold) {
	want = now.Add(-retention)
	for _, h := range live {
		if h.Timestamp <= want {
			want, heldBy = h.Timestamp-1, &h
		}
	}
	return want, heldBy
}
