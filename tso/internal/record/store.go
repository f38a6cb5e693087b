package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

	// AddSession, RemoveSessions and Sessions are those of coordination.SessionStore.
	AddSession(ctx context.Context, id string) error
	RemoveSessions(ctx context.Context, ids ...string) error
	Sessions(ctx context.Context) ([]string, error)
}

// Store is what all stores do around their Backend. Apart from the type of a record its methods
// are those of tso.Store and coordination.SessionStore.
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
// store holds now. It reads after a refusal too, because the swap may repeat one that was applied.
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
	case stored == old: // and the swap may still be in flight
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

// AddSession implements coordination.SessionStore.
func (s *Store[T]) AddSession(ctx context.Context, id string) error {
	if err := checkSessionIDs(id); err != nil {
		return err
	}
	return s.call(ctx, "storing a session", s.SessionsTable, func(ctx context.Context) error {
		return s.Backend.AddSession(ctx, id)
	})
}

// RemoveSessions implements coordination.SessionStore.
func (s *Store[T]) RemoveSessions(ctx context.Context, ids ...string) error {
	if err := checkSessionIDs(ids...); err != nil || len(ids) == 0 {
		return err
	}
	return s.call(ctx, "removing sessions", s.SessionsTable, func(ctx context.Context) error {
		return s.Backend.RemoveSessions(ctx, ids...)
	})
}

// Sessions implements coordination.SessionStore.
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

// Limits of sessions.
const (
	MaxSessionIDBytes = 64
	MaxSessionIDs     = 1000 // in one question, and in one removal from a store

	// MaxStoredSessions is how many sessions a store returns: twice as many as a server may have
	// open, because some may be left of a leader that could not remove them.
	MaxStoredSessions = 200_000
)

// IsSessionID reports whether id may be the id of a session.
func IsSessionID(id string) bool {
	return id != "" && len(id) <= MaxSessionIDBytes && utf8.ValidString(id)
}

// checkSessionIDs returns ErrInvalidArgument unless a store may keep ids.
func checkSessionIDs(ids ...string) error {
	if len(ids) > MaxSessionIDs {
		return fmt.Errorf("tso: %w: %d sessions, more than %d", ErrInvalidArgument, len(ids), MaxSessionIDs)
	}
	for _, id := range ids {
		if !IsSessionID(id) {
			return fmt.Errorf("tso: %w: the session %.80q is not 1 to %d bytes of UTF-8",
				ErrInvalidArgument, id, MaxSessionIDBytes)
		}
	}
	return nil
}

// Errors of package tso, where they are explained.
var (
	ErrCorrupt  = errors.New("the oracle's record is damaged")
	ErrNoRecord = errors.New("the oracle's record is missing: initialize a new oracle; " +
		"if this one has served before, raise its mark above everything that was served")
	ErrFenced          = errors.New("the oracle's record was changed by another server")
	ErrInvalidArgument = errors.New("invalid argument")
)

// Corruptf returns an ErrCorrupt that says what was found.
func Corruptf(format string, args ...any) error {
	return fmt.Errorf("tso: %w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// Permanent reports whether retrying cannot cure err, as when a table does not exist or may not be
// read.
func Permanent(err error) bool {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNoRecord) || errors.Is(err, ErrInvalidArgument) {
		return true
	}
	switch status.Code(err) {
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument,
		codes.Unimplemented, codes.DataLoss:
		return true
	}
	return false
}

// WithContext makes an error that the end of ctx caused satisfy errors.Is with ctx.Err(): gRPC and
// the client libraries return a status instead.
func WithContext(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
