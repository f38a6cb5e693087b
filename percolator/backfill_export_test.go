package percolator

import (
	"context"
	"time"
)

// Waiting replaces the wait for the drain: a test knows better than the clock when it is over.
func (o BackfillOptions) Waiting(f func(context.Context, time.Duration) error) BackfillOptions {
	o.wait = f
	return o
}

// Saving sets after how many batches the position is saved.
func (o BackfillOptions) Saving(batches int) BackfillOptions {
	o.saveEvery = batches
	return o
}
