package tso

import (
	"context"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// Store keeps the one record of an oracle, its [State], durably and with compare-and-swap. Package
// spannerstore and [NewBigtableStore] are for production, [NewMemoryStore] is for tests.
//
// A store is linearizable: a Load returns the record of the last CompareAndSwap that was applied
// before it began, or a later one. Its methods are safe for concurrent use and return when their
// context ends.
//
// A store that cannot promise all of this may also have a method Warning() string; servers log what
// it returns once, when they start.
type Store interface {
	// Load returns the record, or the zero State when nothing has been stored. ErrCorrupt: the
	// store holds something that is no record, or a part of one.
	Load(ctx context.Context) (State, error)

	// CompareAndSwap replaces old by next if the store holds exactly old; the zero State as old
	// stores the first record. It is idempotent: a second call with the same arguments succeeds if
	// the store holds next.
	//
	// After nil, next is stored. After ErrFenced it is not and never will be: the store holds
	// another record than old and next. (It may have held next in between.) After
	// ErrInvalidArgument nothing was tried, because next does not follow old. After any other error
	// the outcome is ambiguous: the swap may have been applied, or may still be. Call again, or
	// Load.
	CompareAndSwap(ctx context.Context, old, next State) error
}

// warner is a [Store] with something to tell operators.
type warner interface{ Warning() string }

// repairable is a [Store] in which a damaged record can be replaced.
type repairable interface {
	// Remains returns what can still be read of the version, the epoch, the mark and the lease, and
	// a function that replaces what was found by a record. The function fails with ErrFenced if
	// something else is stored by then.
	Remains(ctx context.Context) (found recordState, repair func(context.Context, recordState) error, err error)
}

// store is a [Store], and a [SessionStore], on a database.
type store struct{ *record.Store[Timestamp] }

// Load implements [Store].
func (s store) Load(ctx context.Context) (State, error) {
	st, err := s.Store.Load(ctx)
	return State(st), err
}

// CompareAndSwap implements [Store].
func (s store) CompareAndSwap(ctx context.Context, old, next State) error {
	return s.Store.CompareAndSwap(ctx, recordState(old), recordState(next))
}
