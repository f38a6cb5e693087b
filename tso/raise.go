package tso

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// Raise is the way back after the record was lost, damaged or restored from a backup: it
// makes the high-water mark at least to, which has to be above every timestamp that was
// ever handed out, for instance [At] an hour from now. When Raise has returned nil,
// every timestamp that is asked for from then on is greater than to. Raise never lowers
// a mark: a record with a greater one, also a damaged one in which that can still be
// read, keeps it. It can be repeated. There is no way to take it back, and a distant to
// wastes timestamps: they follow the clock again only when the clock gets there.
//
// When the record is missing or damaged, all servers have to be stopped before: nothing
// says how long the lease of a leader has to run. Otherwise they may run. If the lease is held, Raise fences whoever holds it and
// waits until the lease has run out, 2.5 s by default: the former leader stops at its
// next renewal, and some server leads after the wait. When ctx ends during the wait,
// the mark is raised all the same, but the former leader may go on for the rest of its
// lease.
//
// Errors: ErrInvalidArgument, when to is not between 1 and [MaxTimestamp]; ErrFenced,
// when servers changed the record each time it was to be replaced; ErrCorrupt, when the
// record is damaged in a way that cannot be repaired; ctx's and the store's.
func Raise(ctx context.Context, store Store, to Timestamp) error {
	if to < 1 || to > MaxTimestamp {
		return fmt.Errorf("tso: %w: raising the mark to %d, which is not between 1 and %d", ErrInvalidArgument, to, MaxTimestamp)
	}
	var err error
	for range raiseTries {
		var replaced State
		if replaced, err = raise(ctx, store, to); err == nil {
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

// raiseTries is how often Raise looks at the record anew because it was changed
// meanwhile. A leader writes it a few times in a lease.
const raiseTries = 5

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

// raiseDamaged replaces what Load has refused with cause.
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

// raised returns the record that raises the mark of st. A lease that somebody holds is
// taken over by a holder that does not exist, with the same length: a leader is fenced,
// and all servers wait for as long as it may still serve.
func (st State) raised(to Timestamp) State {
	next := st.successor()
	next.HighWater = max(st.HighWater, to)
	if st.held() {
		next.Epoch++
		next.Holder, next.Address = "raise-"+uuid.NewString(), ""
	}
	return next
}
