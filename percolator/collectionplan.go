package percolator

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// CollectionBounds says how far collection has come and how far a cycle of this client's Collector would go if it began now.
type CollectionBounds struct {
	Now       tso.Timestamp // the oracle's present
	Safepoint tso.Timestamp // announced: reads at or below it are refused; 0: none was yet
	Announced tso.Timestamp // the oracle's time when it was
	Mark      tso.Timestamp // nothing newer has been removed

	Retention time.Duration // Config.Retention of this client, by which Next is meant; other collectors may have another
	Next      tso.Timestamp // the safepoint that a cycle would announce, or finish; not above Safepoint: nothing new to collect
	HeldBy    *Hold         // the hold that keeps Next below what Retention asks for; nil: none does
}

// CollectionBounds reads how far collection has come (docs/PROTOCOL.md, "Collection"). It changes nothing.
func (c *Client) CollectionBounds(ctx context.Context) (CollectionBounds, error) {
	m, err := c.meta.refresh(ctx)
	if err != nil {
		return CollectionBounds{}, err
	}
	now, err := c.next(ctx)
	if err != nil {
		return CollectionBounds{}, err
	}
	b := CollectionBounds{Now: now, Safepoint: m.safepoint, Announced: m.now, Mark: m.mark, Retention: c.cfg.Retention}
	var live []Hold
	for _, h := range m.holds {
		if h.Expires > now {
			live = append(live, h)
		}
	}
	b.Next, b.HeldBy = wantedSafepoint(now, c.cfg.Retention, live)
	b.Next = max(b.Next, m.safepoint)
	return b, nil
}

// wantedSafepoint is as new as the retention allows, and below every hold.
func wantedSafepoint(now tso.Timestamp, retention time.Duration, live []Hold) (want tso.Timestamp, heldBy *Hold) {
	want = now.Add(-retention)
	for _, h := range live {
		if h.Timestamp <= want {
			want, heldBy = h.Timestamp-1, &h
		}
	}
	return want, heldBy
}
