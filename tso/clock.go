package tso

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// clock is the clocks of a machine. The wall clock gives timestamps their value and may jump in
// either direction. The two others only go forward, even while the process is stopped. While the
// machine is suspended, the monotonic clock stands still; the boot-time clock goes on, where the
// system has one and the machine itself sleeps. Where a hypervisor suspends it, only the wall clock
// can tell, once it was corrected. So leases end by whichever clock shows most (moment.since), and
// who waits for the end of another's lease goes by the monotonic clock, which shows least.
type clock struct {
	wall       func() time.Time
	mono, boot func() time.Duration // since some moment before the process began to measure
}

// newClock returns the clocks of this machine, with wall in place of its own unless that is nil.
func newClock(wall func() time.Time) clock {
	if wall == nil {
		wall = time.Now
	}
	start, before := time.Now(), suspended()
	mono := func() time.Duration { return time.Since(start) }
	return clock{wall: wall, mono: mono, boot: func() time.Duration { return mono() + suspended() - before }}
}

// moment is what the clocks show.
type moment struct {
	mono, boot time.Duration
	wall       time.Time
}

func (c clock) moment() moment {
	return moment{c.mono(), c.boot(), c.wall().Round(0)} // Round strips the monotonic part, by which Sub would measure
}

// since returns the time since an earlier moment, by the clock that shows most.
func (m moment) since(earlier moment) time.Duration {
	return max(m.upSince(earlier), m.wall.Sub(earlier.wall))
}

// upSince is since without the wall clock, which may have been set.
func (m moment) upSince(earlier moment) time.Duration {
	return max(m.mono-earlier.mono, m.boot-earlier.boot)
}

// lease is a lease as its holder counts it.
type lease struct {
	from   moment // before the request for the lease was sent
	length time.Duration
	doubts int64 // calls of allocator.confirm that had come by then
}

// left returns how long the lease lasts after a moment; 0 or less: it has ended.
func (l lease) left(at moment) time.Duration { return l.length - at.since(l.from) }

// now returns the timestamp that the wall clock shows.
func (c clock) now() Timestamp { return At(c.wall()) }

// clockWatch logs when the wall clock of a leader jumps, or has fallen behind what was served.
// Order does not depend on either, but they tell an operator why locks are suddenly old or AsOf
// reads are off.
type clockWatch struct {
	clock     clock
	logger    *slog.Logger
	tolerance time.Duration

	last   moment
	behind bool
}

func (w *clockWatch) start() { w.last = w.clock.moment() }

// check compares the progress of the clocks since its last call.
func (w *clockWatch) check(behind bool) {
	now := w.clock.moment()
	jump := now.wall.Sub(w.last.wall) - (now.boot - w.last.boot)
	if jump > w.tolerance || jump < -w.tolerance {
		w.logger.Warn("the clock has jumped", "by", jump)
	}
	if behind != w.behind {
		w.logger.Warn("the clock is behind the timestamps served so far", "behind", behind)
	}
	w.last, w.behind = now, behind
}

// wake wakes the receiver from c, which has room for one, unless c holds a wake-up already.
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

// newPause returns the pauses between attempts that fail, with jitter.
func newPause(first, longest time.Duration) backoff.BackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = first, longest
	return pause
}

// attemptTimeout bounds each attempt of retry, which may have to connect and to fetch credentials.
const attemptTimeout = 10 * time.Second

// retry calls f until it succeeds, fails for good, or ctx ends, and logs the first failure.
func retry(ctx context.Context, logger *slog.Logger, complaint string, pause backoff.BackOff, f func(context.Context) error) error {
	complained := false
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		return struct{}{}, f(attempt)
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		if !complained {
			logger.Warn(complaint, "error", err)
			complained = true
		}
	}))
	return err
}

// forGood makes retry give up with err if retrying cannot cure it.
func forGood(err error) error {
	if err != nil && record.Permanent(err) {
		return backoff.Permanent(err)
	}
	return err
}
