package percolator

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff waits with full jitter around a doubling interval: contenders that were woken together separate.
type backoff struct{ next, limit time.Duration }

func newBackoff(first, limit time.Duration) *backoff { return &backoff{first, limit} }

// wait pauses, or returns the context's error as soon as it ends.
func (b *backoff) wait(ctx context.Context) error {
	d := b.next/2 + rand.N(b.next)
	b.next = min(2*b.next, b.limit)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
