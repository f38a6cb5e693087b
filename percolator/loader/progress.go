package loader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Progress is how far a load has come. All counts are those of this call of Load.
type Progress struct {
	Items    int64 // committed
	Failed   int64 // given to Job.Failed, and passed over
	Bytes    int64 // of the committed items
	Retries  int64 // transactions that were tried again, or divided
	InFlight int64 // items that have been read and not been dealt with
	Elapsed  time.Duration
}

// Rate is how many items a second have been committed.
func (p Progress) Rate() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Items) / p.Elapsed.Seconds()
}

// Report is what a call of Load has done.
type Report struct {
	Progress
	// Resumed tells that this call went on with an earlier load; From is where it began.
	Resumed bool
	From    Position
	// FailedBefore counts the items before From that were given to Job.Failed and passed over.
	FailedBefore int64
	// Position is where every item before it is done. If the load has a name it has been saved,
	// unless the log says otherwise.
	Position Position
	// Failures are the failed items that were passed over, in no particular order, the first 100 of
	// them.
	Failures []*ItemError
}

// counts is what the workers count.
type counts struct {
	began                                  time.Time
	items, failed, bytes, retries, entered atomic.Int64

	mu       sync.Mutex
	failures []*ItemError
}

func (c *counts) read() Progress {
	p := Progress{Items: c.items.Load(), Failed: c.failed.Load(), Bytes: c.bytes.Load(), Retries: c.retries.Load(), Elapsed: time.Since(c.began)}
	p.InFlight = max(0, c.entered.Load()-p.Items-p.Failed)
	return p
}

// report calls f until ctx ends, and once more.
func (c *counts) report(ctx context.Context, every time.Duration, f func(Progress)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			f(c.read())
			return
		case <-ticker.C:
			f(c.read())
		}
	}
}
