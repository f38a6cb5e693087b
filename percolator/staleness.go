package percolator

import (
	"sync"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// MaxStaleness lets the snapshot be as old as d: of the newest timestamp that this client has got from the oracle, for whatever purpose,
// if it was asked for within d by this process's clock, and of a new one otherwise. A client that is busy then reads without the
// oracle's round trip. The snapshot contains everything that was committed more than d ago, by whomever, and all that this client had
// committed by the time of the call. Two such snapshots of one client are in order; those of two clients need not be. 0 is a new timestamp; negative, or
// together with AsOf, it is ErrInvalidArgument.
func MaxStaleness(d time.Duration) ReadOption {
	return readOption(func(o *readOptions) { o.staleness = d })
}

// newestStamp is the greatest timestamp that a client has got.
type newestStamp struct {
	mu sync.Mutex
	stamp
}

func (n *newestStamp) offer(s stamp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.ts > n.ts {
		n.stamp = s
	}
}

// within returns the timestamp if it was asked for at most d ago.
func (n *newestStamp) within(d time.Duration) (tso.Timestamp, bool) {
	if d <= 0 {
		return 0, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ts, n.ts > 0 && time.Since(n.when) <= d
}
