package tso

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"github.com/google/uuid"
)

// maxOpenSessions is how many sessions a Client, or the process of a Server, may
// have. It needs one.
const maxOpenSessions = 64

// SessionStore is a [Store] that keeps the ids of open sessions as well. The stores of
// this package do. A server whose store does not offers no sessions.
//
// Its methods are idempotent, may be called from many goroutines, and return when
// their context ends. Nothing is fenced, unlike the record: a leader that was
// stopped may continue and remove a session that its successor keeps, or add one that
// nobody has. The first is forgotten at the next change of leader, whereupon its owner
// opens another one; the second is given a lease then, which nobody renews. Neither
// needs more care, because whoever is wrong about a session only does work in vain:
// every roll back is decided at the primary (docs/PROTOCOL.md, I8).
type SessionStore interface {
	// AddSession stores the id of a session, 1 to 64 bytes of UTF-8.
	AddSession(ctx context.Context, id string) error

	// RemoveSessions removes ids, 1,000 at most, as far as they are stored.
	RemoveSessions(ctx context.Context, ids ...string) error

	// Sessions returns the ids that are stored, 200,000 at most, in no particular
	// order. Once AddSession or RemoveSessions has returned nil, it knows.
	Sessions(ctx context.Context) ([]string, error)
}

// errSessionEnded means that a session cannot be renewed, since it has ended or never
// was.
var errSessionEnded = errors.New("the session has ended")

// newSessionID returns an id that nobody can guess: who knows it can end the session.
// It is short, as it stands in every lock (docs/PROTOCOL.md, Cells).
func newSessionID() string {
	id := uuid.New()
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// grant is a lease on a session.
type grant struct {
	id    string
	lease time.Duration

	// since is a moment before the request for the lease was sent, by the monotonic
	// clock of who asked: the server counts from later.
	since time.Duration
}

// ends returns until when the owner may believe in its session. It is 2 % earlier
// than the lease says: so much may the speed of two machines' monotonic clocks differ.
func (g grant) ends() time.Duration { return g.since + g.lease - g.lease/50 }

// sessionKeeper is where sessions are kept: a server in this process, or one that is
// called. Its methods return when their context ends.
type sessionKeeper interface {
	open(ctx context.Context) (grant, error)

	// keepAlive renews a lease. errSessionEnded: it cannot be renewed any more.
	keepAlive(ctx context.Context, id string) (grant, error)

	end(ctx context.Context, id string) error
}
