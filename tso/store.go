package tso

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Store keeps the one record of an oracle, its [State], durably and with
// compare-and-swap. [NewSpannerStore] and [NewBigtableStore] are for production,
// [NewMemoryStore] is for tests.
//
// A store is linearizable: a Load returns the record of the last CompareAndSwap that
// was applied before it began, or a later one. Its methods may be called from many
// goroutines and return when their context ends.
//
// A store that cannot promise all of this may have a method Warning() string besides;
// servers log what it returns, once, when they start.
type Store interface {
	// Load returns the record, and the zero State when nothing has been stored.
	// ErrCorrupt: something is stored that is no record, or a part of one.
	Load(ctx context.Context) (State, error)

	// CompareAndSwap replaces old by next if the store holds exactly old; the zero
	// State as old stores the first record. It is idempotent: called again with the
	// same arguments it succeeds if the store holds next.
	//
	// After nil, next is stored. After ErrFenced it is not and never will be: the
	// store holds another record than old and next. (It may have held next in
	// between.) After ErrInvalidArgument nothing was tried, because next does not
	// follow old. After any other error the swap may have been applied, or may still
	// be: call again, or Load.
	CompareAndSwap(ctx context.Context, old, next State) error
}

// warner is a [Store] with something to tell operators.
type warner interface{ Warning() string }

// repairable is a [Store] in which a damaged record can be replaced.
type repairable interface {
	// remains returns what can still be read of the version, the epoch, the mark and
	// the lease, and a function that stores a record in place of what was found. The
	// function fails with ErrFenced if something else is stored by then.
	remains(ctx context.Context) (found State, repair func(ctx context.Context, next State) error, err error)
}

// storeTimeout bounds a request to a store whose caller has set no deadline.
const storeTimeout = 10 * time.Second

// errMismatch is the cause that settle is given when a store refused a swap.
var errMismatch = errors.New("the store holds another record")

// settle finds the outcome of a swap that was refused or whose answer was lost, from
// what the store holds now. A refusal too is looked into: the swap may be the second
// sending of one that was applied. The nonce in next tells.
func settle(ctx context.Context, load func(context.Context) (State, error), old, next State, cause error) error {
	stored, err := load(ctx)
	switch {
	case errors.Is(err, ErrCorrupt):
		return err
	case err != nil:
		return fmt.Errorf("tso: storing record %d, outcome unknown: %w (reading it back: %w)", next.Version, cause, err)
	case stored == next:
		return nil
	case stored == old: // and the swap may still be on its way
		return fmt.Errorf("tso: storing record %d, not applied so far: %w", next.Version, cause)
	}
	return fmt.Errorf("tso: storing record %d: %w: the store holds record %d of epoch %d",
		next.Version, ErrFenced, stored.Version, stored.Epoch)
}

// checkName returns an error unless name can be the name of an oracle.
func checkName(name string) error {
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) {
		return fmt.Errorf("tso: %w: the oracle's name %.140q is not 1 to %d bytes of UTF-8", ErrInvalidArgument, name, maxNameBytes)
	}
	return nil
}
