package tso

import (
	"context"
	"errors"
	"time"
)

// maxOpenSessions is how many sessions a Client, or the process of a Server, may have. It needs
// one.
const maxOpenSessions = 64

// SessionStore is a [Store] that also keeps the ids of open sessions, as the stores of this package
// and of spannerstore do. A server whose store does not offers no sessions.
//
// Its methods are idempotent, safe for concurrent use, and return when their context ends. Unlike
// the record, sessions are not fenced: a leader that was stopped may continue and remove a session
// that its successor keeps, or add one without an owner. The next leader forgets the first,
// whereupon its owner opens another one, and gives the second a lease that no one renews. Neither
// needs more care, because wrong knowledge of a session only costs work: the primary decides every
// rollback (docs/PROTOCOL.md, I8).
type SessionStore interface {
	// AddSession stores the id of a session, 1 to 64 bytes of UTF-8.
	AddSession(ctx context.Context, id string) error

	// RemoveSessions removes ids, 1,000 at most, as far as they are stored.
	RemoveSessions(ctx context.Context, ids ...string) error

	// Sessions returns the stored ids, 200,000 at most, in any order. It sees every AddSession and
	// RemoveSessions that has returned nil.
	Sessions(ctx context.Context) ([]string, error)
}

// errSessionEnded means that a session cannot be renewed, because it has ended or never was.
var errSessionEnded = errors.New("the session has ended")

// grant is a lease on a session.
type grant struct {
	id    string
	lease time.Duration
	since moment // before the request for the lease was sent: the server counts from later
}

// left returns how long its owner may trust the session after a moment, by whichever clock shows
// most. That is 2 % less than the lease says, because the speed of two machines' clocks may differ
// by as much.
func (g grant) left(at moment) time.Duration {
	return lease{from: g.since, length: g.lease - g.lease/50}.left(at)
}

// sessionKeeper is where sessions are kept: a server in this process, or one behind a connection.
// Its methods return when their context ends.
type sessionKeeper interface {
	open(ctx context.Context) (grant, error)

	// keepAlive renews a lease. errSessionEnded: it cannot be renewed any more.
	keepAlive(ctx context.Context, id string) (grant, error)

	end(ctx context.Context, id string) error
}
