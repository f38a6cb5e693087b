package tso

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Initialize stores the first record of the oracle in store, with a high-water mark of
// now. It is part of setting up an instance, and idempotent: a record that is there,
// whatever its mark, is left alone.
//
// Once an oracle was initialized, a missing record is a loss of data, which a server
// with [ServerConfig.RequireRecord] does not start with. Then use [Raise] instead:
// Initialize would trust this machine's clock to be ahead of all that was served.
//
// Errors: ErrCorrupt, when a damaged record is there; and the store's.
func Initialize(ctx context.Context, store Store) error {
	return initialize(ctx, store, At(time.Now()))
}

func initialize(ctx context.Context, store Store, mark Timestamp) error {
	st, err := store.Load(ctx)
	if err != nil {
		return fmt.Errorf("tso: initializing: %w", err)
	}
	if st != (State{}) {
		return nil
	}
	one := State{}.successor()
	one.HighWater = mark
	err = store.CompareAndSwap(ctx, State{}, one)
	if errors.Is(err, ErrFenced) { // somebody else has done it
		return nil
	}
	if err != nil {
		return fmt.Errorf("tso: initializing: %w", err)
	}
	return nil
}
