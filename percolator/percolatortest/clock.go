package percolatortest

import (
	"sync"
	"time"
)

// Clock is the wall clock of an environment's oracle. It follows real time plus whatever it was
// advanced by, or, after Stop, moves only when it is told to. Its methods are safe for concurrent
// use.
//
// Moving it back is allowed too: the oracle's timestamps increase nevertheless (I1).
type Clock struct {
	mu      sync.Mutex
	offset  time.Duration
	stopped time.Time // when not zero: the time without the offset
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		return c.stopped.Add(c.offset)
	}
	return time.Now().Add(c.offset)
}

// Advance moves the clock by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// Stop ends following real time: from now on only Advance moves the clock.
func (c *Clock) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped.IsZero() {
		c.stopped = time.Now()
	}
}
