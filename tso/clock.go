package tso

import (
	"context"
	"time"
)

// clock is the two clocks of a server. The wall clock gives timestamps their value
// and may jump in either direction. The monotonic clock measures leases and only ever
// goes forward, also while the process is stopped.
type clock struct {
	wall func() time.Time
	mono func() time.Duration // since some moment before the server started
}

// newClock returns a clock that shows wall's time, time.Now's when wall is nil.
func newClock(wall func() time.Time) clock {
	if wall == nil {
		wall = time.Now
	}
	start := time.Now()
	return clock{wall: wall, mono: func() time.Duration { return time.Since(start) }}
}

// now returns the timestamp that the wall clock shows.
func (c clock) now() Timestamp { return At(c.wall()) }

// wake wakes who receives from c, which has room for one, unless a signal waits there already.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits for d, or until ctx ends, and returns ctx.Err().
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
