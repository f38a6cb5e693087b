package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Backend is a database that keeps the record and the sessions of one oracle. Its methods return
// when their context ends, with the errors of the database's client library.
type Backend[T ~int64] interface {
	// Read returns the record, and the zero State when nothing has been stored. ErrCorrupt:
	// something is stored that is no record, or a part of one.
	Read(ctx context.Context) (State[T], error)

	// Swap replaces old by next if the database holds exactly old; the zero State as old stores
	// the first record. ErrMismatch: the database holds something else.
	Swap(ctx context.Context, old, next State[T]) error

	// Remains returns what can still be read of a damaged record, and a function that replaces what
	// was found by a record. ErrMismatch: something else is stored by then.
	Remains(ctx context.Context) (found State[T], repair func(context.Context, State[T]) error, err error)

	// AddSession, RemoveSessions and Sessions are those of tso.SessionStore.
	AddSession(ctx context.Context, id string) error
	RemoveSessions(ctx context.Context, ids ...string) error
	Sessions(ctx context.Context) ([]string, error)
}

// Store is what all stores do around their Backend. Apart from the type of a record its methods
// are those of tso.Store and tso.SessionStore.
type Store[T ~int64] struct {
	Backend Backend[T]
	Name    string // of the oracle

	// Table and SessionsTable are what has to exist in the database, for messages.
	Table, SessionsTable string
}

// timeout bounds a request to a store whose caller has set no deadline.
const timeout = 10 * time.Second

// ErrMismatch means that a database refused a swap.
var ErrMismatch = errors.New("the store holds another record")

// Load implements tso.Store.
func (s *Store[T]) Load(ctx context.Context) (st State[T], err error) {
	err = s.call(ctx, "reading the record", s.Table, func(ctx context.Context) error {
		st, err = s.Backend.Read(ctx)
		return err
	})
	return st, err
}

// CompareAndSwap implements tso.Store.
func (s *Store[T]) CompareAndSwap(ctx context.Context, old, next State[T]) error {
	if err := old.checkStep(next); err != nil {
		return err
	}
	err := s.call(ctx, "storing the record", s.Table, func(ctx context.Context) error {
		return s.Backend.Swap(ctx, old, next)
	})
	if err == nil || Permanent(err) {
		return err
	}
	return s.resolve(ctx, old, next, err)
}

// resolve finds the outcome of a swap that was refused, or whose answer was lost, from what the
// store holds now. It looks into a refusal too, because the swap may repeat one that was applied.
// The nonce in next tells.
func (s *Store[T]) resolve(ctx context.Context, old, next State[T], cause error) error {
	stored, err := s.Load(ctx)
	switch {
	case errors.Is(err, ErrCorrupt):
		return err
	case err != nil:
		return fmt.Errorf("tso: storing record %d, outcome unknown: %w (reading it back: %w)",
			next.Version, cause, err)
	case stored == next:
		return nil
	case stored == old: // and the swap may still be under way
		return fmt.Errorf("tso: storing record %d, not applied so far: %w", next.Version, cause)
	}
	return fmt.Errorf("tso: storing record %d: %w: the store holds record %d of epoch %d",
		next.Version, ErrFenced, stored.Version, stored.Epoch)
}

// Remains returns what can still be read of the version, the epoch, the mark and the lease of a
// damaged record, and a function that replaces what was found by a record. The function
// fails with ErrFenced if something else is stored by then.
func (s *Store[T]) Remains(
	ctx context.Context,
) (found State[T], repair func(context.Context, State[T]) error, err error) {
	var write func(context.Context, State[T]) error
	err = s.call(ctx, "reading the record", s.Table, func(ctx context.Context) error {
		found, write, err = s.Backend.Remains(ctx)
		return err
	})
	return found, func(ctx context.Context, next State[T]) error {
		err := s.call(ctx, "repairing the record", s.Table, func(ctx context.Context) error { return write(ctx, next) })
		if errors.Is(err, ErrMismatch) {
			return fmt.Errorf("%w: %w", ErrFenced, err)
		}
		return err
	}, err
}

// AddSession implements tso.SessionStore.
func (s *Store[T]) AddSession(ctx context.Context, id string) error {
	if err := checkSessionIDs(id); err != nil {
		return err
	}
	return s.call(ctx, "storing a session", s.SessionsTable, func(ctx context.Context) error {
		return s.Backend.AddSession(ctx, id)
	})
}

// RemoveSessions implements tso.SessionStore.
func (s *Store[T]) RemoveSessions(ctx context.Context, ids ...string) error {
	if err := checkSessionIDs(ids...); err != nil || len(ids) == 0 {
		return err
	}
	return s.call(ctx, "removing sessions", s.SessionsTable, func(ctx context.Context) error {
		return s.Backend.RemoveSessions(ctx, ids...)
	})
}

// Sessions implements tso.SessionStore.
func (s *Store[T]) Sessions(ctx context.Context) (ids []string, err error) {
	err = s.call(ctx, "reading the sessions", s.SessionsTable, func(ctx context.Context) error {
		ids, err = s.Backend.Sessions(ctx)
		return err
	})
	ids = slices.DeleteFunc(ids, func(id string) bool { return !IsSessionID(id) })
	return ids[:min(len(ids), MaxStoredSessions)], err
}

// call calls f, for at most timeout, and says in its error what was done where.
func (s *Store[T]) call(ctx context.Context, doing, table string, f func(ctx context.Context) error) error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := ctx.Err()
	if err == nil {
		err = f(ctx)
	}
	switch {
	case err == nil, errors.Is(err, ErrCorrupt), errors.Is(err, ErrInvalidArgument):
		return err
	case Permanent(err):
		return fmt.Errorf("tso: %s of oracle %q: %w (is there a table %s?)", doing, s.Name, err, table)
	}
	return fmt.Errorf("tso: %s of oracle %q in %s: %w", doing, s.Name, table, WithContext(ctx, err))
}

// CheckName returns ErrInvalidArgument unless name can be the name of an oracle.
func CheckName(name string) error {
	if name == "" || len(name) > MaxNameBytes || !utf8.ValidString(name) {
		return fmt.Errorf("tso: %w: the oracle's name %.140q is not 1 to %d bytes of UTF-8",
			ErrInvalidArgument, name, MaxNameBytes)
	}
	return nil
}
