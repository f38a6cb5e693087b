package tso

import (
	"context"
	"time"
)

// An oracle may offer more than timestamps. [Client] and [Server] implement both interfaces below;
// a caller finds out by a type assertion on its [Oracle]. Correctness needs neither, and callers
// that cannot reach them go on without.

// Session is a lease by which others can tell that this process lives (section 2.2 of the paper).
// It renews itself in the background until it is closed. When the oracle has ended it, because no
// renewal arrived for too long, it opens another one, with another id.
type Session interface {
	// ID returns the id of the session, at most 64 bytes, and "" while this process does not know
	// that it has one. It never waits.
	ID() string

	// Close ends the session: others learn at once that its owner is gone. Without an answer the
	// lease runs out by itself.
	Close(ctx context.Context) error
}

// Sessions is an oracle that keeps sessions.
type Sessions interface {
	// OpenSession begins a session in the background and returns at once.
	OpenSession() (Session, error)

	// EndedSessions returns those of ids, 1,000 at most, whose sessions have ended or never were.
	// Every other session lives, or may live.
	EndedSessions(ctx context.Context, ids ...string) ([]string, error)
}

// RowLocks is an oracle that keeps advisory locks on rows (section 2.4 of the paper). The locks are
// in the leader's memory and go with it. Rows are named by a hash.
type RowLocks interface {
	// LockRows locks rows, 1,024 at most, in their order, up to the first that another holder has
	// locked, and returns how many holder has now. It renews what holder already has. The locks
	// live for ttl, from 1 ms to 1 min, unless they are unlocked.
	LockRows(ctx context.Context, holder string, ttl time.Duration, rows []uint64) (locked int, err error)

	// UnlockRows unlocks those of rows that holder has locked.
	UnlockRows(ctx context.Context, holder string, rows []uint64) error
}
