package tso

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gopercolator/percolator/tso/internal/record"
)

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
