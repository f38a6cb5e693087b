package simulation

import (
	"context"
	"math/rand/v2"
	"time"
)

// latency is around half of the mean to one and a half, and different each time, so that the seed
// and not the scheduler decides who comes first.
func latency(r *rand.Rand, mean time.Duration) time.Duration {
	return mean/2 + time.Duration(r.Int64N(int64(mean)))
}

// pause waits for d, or returns the context's error as soon as it ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
