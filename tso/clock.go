package tso

import (
	"log/slog"
	"time"
)

// clock is the two clocks of a server. The wall clock gives timestamps their value and may jump in
// either direction. The monotonic clock measures leases and only ever goes forward, even while the
// process is stopped.
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

// clockWatch logs when the wall clock of a leader jumps, or has fallen behind what was served.
// Order does not depend on either, but they tell an operator why locks are suddenly old or AsOf
// reads are off.
type clockWatch struct {
	clock     clock
	logger    *slog.Logger
	tolerance time.Duration

	wall   time.Time
	mono   time.Duration
	behind bool
}

func (w *clockWatch) start() { w.wall, w.mono = w.clock.wall(), w.clock.mono() }

// check compares the progress of the clocks since its last call.
func (w *clockWatch) check(behind bool) {
	wall, mono := w.clock.wall(), w.clock.mono()
	// Round strips the monotonic part, by which Sub would measure otherwise.
	jump := wall.Round(0).Sub(w.wall.Round(0)) - (mono - w.mono)
	if jump > w.tolerance || jump < -w.tolerance {
		w.logger.Warn("the clock has jumped", "by", jump)
	}
	if behind != w.behind {
		w.logger.Warn("the clock is behind the timestamps served so far", "behind", behind)
	}
	w.wall, w.mono, w.behind = wall, mono, behind
}
