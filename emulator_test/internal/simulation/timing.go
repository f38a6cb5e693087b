package simulation

import (
	"math/rand/v2"
	"time"
)

// latency is around half of the mean to one and a half, and different each time, so that the seed
// and not the scheduler decides who comes first.
func latency(r *rand.Rand, mean time.Duration) time.Duration {
	return mean/2 + time.Duration(r.Int64N(int64(mean)))
}
