package observers

import (
	"math/rand/v2"
	"time"
)

// backoff is an exponential pause with jitter. Unlike internal/engine/model's it holds no state: a
// waiting cell keeps only its count of failures.
type backoff struct{ initial, limit time.Duration }

// pause returns how long to wait after the n-th failure in a row, n ≥ 1: initial × 2^(n-1), at
// most limit, shortened at random by up to half so that cells that failed together separate.
func (b backoff) pause(n int) time.Duration {
	d := b.limit
	if shift := n - 1; shift < 30 && b.initial<<shift < b.limit {
		d = b.initial << shift
	}
	return d - rand.N(d/2+1)
}
