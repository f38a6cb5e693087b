package tso

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// start reads the record for the first time and refuses one that could make the oracle hand out
// timestamps a second time.
func (e *elector) start(ctx context.Context) error {
	pause := backoff.NewConstantBackOff(max(e.retry, 100*time.Millisecond))
	served := Timestamp(0)
	if e.served != nil {
		// Before the record is read, because another server may serve, and extend its mark, in
		// between.
		err := retry(ctx, e.logger, "what was served is not known", pause, func(ctx context.Context) (err error) {
			served, err = e.served(ctx)
			return forGood(err)
		})
		if err != nil {
			return fmt.Errorf("tso: finding out what was served: %w", err)
		}
	}
	err := retry(ctx, e.logger, "the oracle's store does not answer", pause, func(ctx context.Context) (err error) {
		e.seen, err = e.store.Load(ctx)
		return forGood(err)
	})
	switch {
	case err != nil:
		return err
	case e.seen == State{} && e.requireRecord:
		return fmt.Errorf("tso: %w", ErrNoRecord)
	case served > e.seen.HighWater:
		return record.Corruptf("its high-water mark is %d, but %d has been served: it was lost, or restored from a backup; "+
			"stop all servers and raise the mark (Raise) above everything that was served", e.seen.HighWater, served)
	}
	return nil
}
