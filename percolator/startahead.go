package percolator

import (
	"context"
	"sync"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// A transaction that reads nothing may take a start timestamp that was asked for before it began: it has seen nothing that could have
// become stale, and all that an older start timestamp does is refuse to overwrite what was committed since (I2). So each blind transaction
// takes one that is at hand and has one asked for in its place, which saves the oracle's round trip.
//
// The newest is taken first. The oldest first, as a queue would have it, would hand out timestamps as old as the queue is long, and the
// older a timestamp is, the likelier it loses against something that was committed since.

// stampsMost is how many start timestamps are kept at hand, and how many are asked for at once.
const stampsMost = 64

// startAhead keeps start timestamps at hand.
type startAhead struct {
	mu     sync.Mutex
	stamps []stamp // oldest first
	asking int
}

// take returns the newest timestamp at hand if it was asked for less than age ago, and whether one is to be asked for in its place; whoever
// asks says so to put.
func (a *startAhead) take(age time.Duration) (s stamp, ok, ask bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.stamps); n > 0 {
		s = a.stamps[n-1]
		if ok = time.Since(s.when) < age; ok {
			a.stamps = a.stamps[:n-1]
		} else {
			a.stamps = a.stamps[:0] // the others are older still
		}
	}
	if ask = a.asking < stampsMost; ask {
		a.asking++
	}
	return s, ok, ask
}

// put keeps what was asked for, in the place of the oldest if need be; answered is false if there was no answer.
func (a *startAhead) put(s stamp, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking--
	if !answered {
		return
	}
	if len(a.stamps) == stampsMost {
		a.stamps = append(a.stamps[:0], a.stamps[1:]...)
	}
	a.stamps = append(a.stamps, s)
}

// startTimestamp asks the oracle; for a blind transaction it takes one that is at hand, not older than a quarter of a lock's life.
func (c *Client) startTimestamp(ctx context.Context, blind bool) (stamp, error) {
	if blind && !c.closed.Load() {
		s, ok, ask := c.ahead.take(c.cfg.LockTTL / 4)
		if ask {
			go c.askAhead()
		}
		if ok {
			return s, nil
		}
	}
	return c.askStamp(ctx)
}

func (c *Client) askAhead() {
	s, err := c.askStamp(c.background)
	c.ahead.put(s, err == nil)
}

func (c *Client) askStamp(ctx context.Context) (stamp, error) {
	asked := time.Now()
	ts, err := c.next(ctx)
	return stamp{ts, asked}, err
}

// stamp is a timestamp with the monotonic time at which it was asked for.
type stamp struct {
	ts   tso.Timestamp
	when time.Time
}
