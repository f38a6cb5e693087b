package observers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A process whose reports get no answer twice in a row reports again before it is taken for dead,
// which is when three intervals have passed.
func TestReportsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{time.Second, 10 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			stored, attempts := time.Now().Add(interval), 0
			keepReporting(ctx, interval, func(ctx context.Context) {
				if attempts++; attempts%3 != 0 {
					<-ctx.Done()
					return
				}
				if since := time.Since(stored); since > 3*interval {
					t.Errorf("a report came %v after the last one, every %v", since, interval)
				}
				if stored = time.Now(); attempts >= 300 {
					stop()
				}
			})
		})
	}
}
