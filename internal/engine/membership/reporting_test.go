package membership

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// A reporter without a place in the list reads it rarely.
func TestReportsWithoutAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 59*time.Minute)
		defer stop()
		tries := 0
		keepReporting(ctx, ReportInterval, 0, func(context.Context) error { tries++; return model.ErrTooLarge })
		if tries != 6 {
			t.Errorf("%d tries in an hour", tries)
		}
	})
}

// A process whose reports get no answer twice in a row reports again before it is taken for dead,
// which is when three intervals have passed.
func TestReportsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{time.Second, 10 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			stored, attempts := time.Now().Add(interval), 0
			keepReporting(ctx, interval, 0, func(ctx context.Context) error {
				if attempts++; attempts%3 != 0 {
					<-ctx.Done()
					return ctx.Err()
				}
				if since := time.Since(stored); since > 3*interval {
					t.Errorf("a report came %v after the last one, every %v", since, interval)
				}
				if stored = time.Now(); attempts >= 300 {
					stop()
				}
				return nil
			})
		})
	}
}
