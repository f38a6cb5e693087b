package tso

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// Raise repairs an oracle whose record was lost, damaged or restored from a backup. It raises the
// high-water mark to mark, which must be above every timestamp that was ever handed out: [At] an
// hour from now, for instance. Every timestamp that is requested after Raise has returned nil is
// greater than mark. Raise never lowers a mark: a record with a greater one keeps it,
// even a damaged record if its mark can still be read. Raise can be repeated but not undone, and a
// distant mark wastes timestamps: they follow the clock again only when the clock gets there.
//
// When the record is missing or damaged, stop all servers first: nothing says how long the lease of
// a leader has to run. Otherwise they may run. If the lease is held, Raise fences its holder and
// waits until the lease has run out, 2.5 s by default: the former leader stops at its next renewal,
// and some server leads after the wait. When ctx ends during the wait, the mark is raised all the
// same, but the former leader may go on for the rest of its lease.
//
// Errors: ErrInvalidArgument, when mark is not between 1 and [MaxTimestamp]; ErrFenced, when
// servers changed the record during every attempt; ErrCorrupt, when the record is damaged beyond
// repair; ctx's and the store's.
func Raise(ctx context.Context, store Store, mark Timestamp) error {
	if mark < 1 || mark > MaxTimestamp {
		return fmt.Errorf("tso: %w: raising the mark to %d, which is not between 1 and %d", ErrInvalidArgument, mark, MaxTimestamp)
	}
	var err error
	for range raiseAttempts {
		var replaced State
		if replaced, err = raise(ctx, store, mark); err == nil {
			if err = sleep(ctx, replaced.Lease); err != nil {
				return fmt.Errorf("tso: the mark is raised; waiting for the lease of the leader: %w", err)
			}
			return nil
		}
		if !errors.Is(err, ErrFenced) {
			break
		}
	}
	return fmt.Errorf("tso: raising the mark: %w", err)
}

// raiseAttempts is how many attempts Raise makes while others change the record. A leader writes it
// a few times in a lease.
const raiseAttempts = 5

// raise makes one attempt and returns the record that it replaced.
func raise(ctx context.Context, store Store, to Timestamp) (State, error) {
	st, err := store.Load(ctx)
	if errors.Is(err, ErrCorrupt) {
		return raiseDamaged(ctx, store, to, err)
	}
	if err != nil || !st.held() && st.HighWater >= to {
		return st, err
	}
	return st, store.CompareAndSwap(ctx, st, st.raised(to))
}

// raiseDamaged replaces a record that Load has refused with cause.
func raiseDamaged(ctx context.Context, store Store, to Timestamp, cause error) (State, error) {
	r, ok := store.(repairable)
	if !ok {
		return State{}, cause
	}
	left, repair, err := r.Remains(ctx)
	if err != nil {
		return State{}, fmt.Errorf("%w (found before: %w)", err, cause)
	}
	found := State(left)
	if found.Lease > 0 {
		found.Holder = "unknown"
	}
	next := recordState(found.raised(to))
	if err := next.Check(); err != nil {
		return State{}, record.Corruptf("what is left of it cannot be used: %v (found before: %v)", err, cause)
	}
	return found, repair(ctx, next)
}

// raised returns the record that raises the mark of st. A holder that does not exist takes over a
// lease that is held, with the same length: the leader is fenced, and all servers wait for as long
// as it may still serve.
func (st State) raised(to Timestamp) State {
	next := st.successor()
	next.HighWater = max(st.HighWater, to)
	if st.held() {
		next.Epoch++
		next.Holder, next.Address = "raise-"+uuid.NewString(), ""
	}
	return next
}

// Initialize stores the first record of the oracle in store, with a high-water mark of now. It is
// part of setting up an instance, and idempotent: it changes no record that is there, whatever its
// mark.
//
// Once an oracle was initialized, a missing record is a loss of data, and a server with
// [ServerConfig.RequireRecord] refuses to start. Then use [Raise]: Initialize would trust this
// machine's clock to be ahead of all that was served.
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
	if errors.Is(err, ErrFenced) { // another process has initialized it
		return nil
	}
	if err != nil {
		return fmt.Errorf("tso: initializing: %w", err)
	}
	return nil
}
