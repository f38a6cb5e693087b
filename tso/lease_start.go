package tso

import (
	"context"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// firstReadTimeout bounds each attempt of a server to read what it needs at its start,
// when connections are made and credentials are fetched.
const firstReadTimeout = 10 * time.Second

// start reads the record for the first time and refuses one from which timestamps
// could be handed out a second time.
func (e *elector) start(ctx context.Context) error {
	served := Timestamp(0)
	if e.served != nil {
		// Before the record is read: another server may serve, and extend its mark,
		// in between.
		err := e.insist(ctx, "what was served is not known", func(ctx context.Context) (err error) {
			served, err = e.served(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("tso: finding out what was served: %w", err)
		}
	}
	err := e.insist(ctx, "the oracle's store does not answer", func(ctx context.Context) (err error) {
		e.seen, err = e.store.Load(ctx)
		return err
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

// insist calls f until it succeeds, while waiting may help.
func (e *elector) insist(ctx context.Context, complaint string, f func(ctx context.Context) error) error {
	for complained := false; ; {
		attempt, cancel := context.WithTimeout(ctx, firstReadTimeout)
		err := f(attempt)
		cancel()
		if err == nil || record.Permanent(err) {
			return err
		}
		if !complained {
			e.logger.Warn(complaint, "error", err)
			complained = true
		}
		if err := sleep(ctx, max(e.retry, 100*time.Millisecond)); err != nil {
			return err
		}
	}
}
