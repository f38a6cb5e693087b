package simulation

import (
	"context"
	"time"
)

// collectEvery is how many requests to the stores make enough garbage to collect it. To touch new
// memory takes longer.
const collectEvery = 24_000

// collectGarbage calls Config.Garbage now and then, at its own instants, at which all others
// waits: a collection does not change who runs next.
func (w *world) collectGarbage(ctx context.Context) {
	const own = 100*time.Millisecond + 7
	ctx, cancel := context.WithTimeout(ctx, 2*longest) // so that a deadlock is one
	defer cancel()
	tick := time.NewTicker(own)
	defer tick.Stop()
	for collected := int64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := w.cfg.store.Requests.Load(); now >= collected+collectEvery {
			collected = now
			w.cfg.Garbage()
		}
	}
}
