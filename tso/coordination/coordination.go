// Package coordination is what an oracle offers its clients beside timestamps: [Sessions],
// [RowLocks] and [Hints]. They tell a process which others live and which rows these work on, so
// that it neither waits for the dead nor repeats the work of others. Correctness needs none of it
// (docs/internals/PROTOCOL.md, I8): wrong answers and missing ones cost work.
//
// tso.Client and tso.Server implement all three. A caller finds out by a type assertion on its
// tso.Oracle; one whose oracle offers less goes on without. The errors are those of package tso.
//
//   - A [Session] is a lease of a process. The ids of open sessions are durable if the oracle's
//     store is a [SessionStore]; a write stores or removes them when a session begins or ends. Only
//     the leader knows how much of a lease is left, by its monotonic clock. A new leader gives
//     every session a whole lease, so a change of leader ends no session that is renewed. The owner
//     counts its lease from before it sent the request, by whichever of its clocks shows most, and
//     so gives its session up before any other process does.
//   - Row locks are in the memory of the leader.
//   - So are hints, which tell workers at once where other processes have made work. Unlike row
//     locks they contain row keys; no log or metric shows them.
package coordination

import (
	"context"
	"time"
)

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

// SessionStore is a tso.Store that also keeps the ids of open sessions, as those of packages tso
// and spannerstore do. A server whose store does not offers no sessions.
//
// Its methods are idempotent, safe for concurrent use, and return when their context ends. Unlike
// the record, sessions are not fenced: a leader that was stopped may continue and remove a session
// that its successor keeps, or add one without an owner. The next leader forgets the first,
// whereupon its owner opens another one, and gives the second a lease that no one renews. Neither
// needs more care, because wrong knowledge of a session only costs work: the primary decides every
// rollback (docs/internals/PROTOCOL.md, I8).
type SessionStore interface {
	// AddSession stores the id of a session, 1 to 64 bytes of UTF-8.
	AddSession(ctx context.Context, id string) error

	// RemoveSessions removes ids, 1,000 at most, as far as they are stored.
	RemoveSessions(ctx context.Context, ids ...string) error

	// Sessions returns the stored ids, 200,000 at most, in any order. It sees every AddSession and
	// RemoveSessions that has returned nil.
	Sessions(ctx context.Context) ([]string, error)
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

// Hint says that there is work. What its topic and its data mean is between those who leave hints
// and those who take them.
type Hint struct {
	Topic uint64 // what kind of work
	Data  string // where it is, at most 8,192 bytes
}

// Hints is an oracle that forwards hints from those who make work to those who do it, each to one
// of them, so that no worker has to search for it first (the direct dispatch of observers, between
// processes). Hints are in the leader's memory and get lost with it, or when there are too many:
// workers also search for it.
type Hints interface {
	// LeaveHints leaves hints, at most 256 with 48 KiB of data. It returns the topics of which it
	// dropped some, because no one has requested them recently, or too many wait.
	LeaveHints(ctx context.Context, hints []Hint) (refused []uint64, err error)

	// TakeHints takes hints of the topics, which are 1,024 at most, and at most most of them, which
	// is from 1 to 256. It waits for the first, up to 30 s; to get none after that time is no
	// error.
	TakeHints(ctx context.Context, topics []uint64, most int, wait time.Duration) ([]Hint, error)
}

// Handover is a [Hints] that passes hints on only to those who wait for them.
type Handover interface {
	// HandHints hands hints, at most 256 with 48 KiB of data, to callers of TakeHints that wait for
	// their topics now, each to one of them, and none of these more than it requested. It returns
	// the indexes of those hints, in ascending order, and forgets the others. A hint that was
	// handed over gets lost if its taker dies.
	HandHints(ctx context.Context, hints []Hint) (taken []int, err error)
}
