package console

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// The last hour is kept however often pages are loaded: a page whose source is asked only for its
// viewers hurries the poll, and so adds a sample.
func TestHistoryHoldsAnHourWhilePagesAreLoaded(t *testing.T) {
	fixture.Slow(t)
	inBubble(t, 0, func(t *testing.T, h *Handler, _ *fakeSource) {
		for i := range int(History/time.Minute) * 5 / 4 {
			if i%30 == 0 { // a browser connects again after the limit of a stream
				watch(h, pageOverview)
			}
			time.Sleep(idleAfter + time.Second)
			get(t, h, "/locks")
			get(t, h, "/journal")
			time.Sleep(29 * time.Second)
		}
		h.poll.mu.Lock()
		kept := h.poll.history.last()
		h.poll.mu.Unlock()
		if span := kept[len(kept)-1].At.Sub(kept[0].At); span < History-2*h.poll.interval {
			t.Errorf("kept %v, want %v", span, History)
		}
	})
}
