package gc

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sync/semaphore"
)

// A request that gets no slot before its context ends was not sent, and says so: what it would have
// resolved is not resolved.
func TestRequestWithoutASlotFails(t *testing.T) {
	r := &resolving{requests: semaphore.NewWeighted(1)}
	ctx, cancel := context.WithCancel(t.Context())
	err := r.request(ctx, func() error {
		cancel()
		return r.request(ctx, func() error {
			t.Error("it was sent")
			return nil
		})
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
