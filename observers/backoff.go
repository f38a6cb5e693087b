package observers

import (
	"math/rand/v2"
	"time"
)

// backoff is an exponential pause with jitter. It holds no state, so that a waiting cell costs no
// more than its count of failures.
type backoff struct{ initial, limit time.Duration }

// pause is how long to wait after the n-th failure in a row (n ≥ 1): initial × 2^(n-1), at most
// limit, and then shortened at random by up to a half, so that cells which failed together do not
// come back together.
func (b backoff) pause(n int) time.Duration {
	d := b.limit
	if shift := n - 1; shift < 30 && b.initial<<shift < b.limit {
		d = b.initial << shift
	}
	return d - rand.N(d/2+1)
}
