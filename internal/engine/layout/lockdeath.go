package layout

import (
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// The death of a lock ("Alive or dead" in docs/internals/PROTOCOL.md). Whoever needs to know
// whether a transaction that has not been decided may be rolled back asks here, and compares no
// time of a lock itself.
//
// Section 2.2 of the paper: a worker that dies loses its token, so its locks may be cleaned up; and
// "a lock that contains a too-old wall time will be cleaned up even if the worker's liveness token
// is valid". The token is the session here. The wall time is Placed, which the owner moves on as
// long as it commits (only on the primary, so the primary's lock is the one to ask, where there is
// one), and too old is what the lock itself says, its TTL: another client may be configured with
// another one, and a slow store makes the owner choose a longer one. The start timestamp does not
// count: a transaction may be old when it begins to commit.
//
// Time is the oracle's. Who judges wrongly costs the transaction its commit, never an answer: every
// rollback passes the primary (I8).

// Dead reports whether the lock's time is up at now, or else the session of its owner has ended.
func (l *LockRecord) Dead(now tso.Timestamp, hasEnded func(session string) bool) bool {
	return now > l.AliveUntil() || hasEnded(l.Session)
}

// Unplaced is the lock by which a transaction is judged that has an entry in the journal and has
// left nothing on its primary yet. Nothing says when it began to commit, nor with which TTL: its
// start timestamp is the earliest that can be, and the TTL is that of the client which judges.
func Unplaced(startTS tso.Timestamp, ttl time.Duration, session string) *LockRecord {
	return &LockRecord{StartTS: startTS, Placed: startTS, TTL: ttl, Session: session}
}

// AliveUntil is when the lock's time is up: it is dead after that, and sooner if the session of its
// owner ends.
func (l *LockRecord) AliveUntil() tso.Timestamp {
	return model.Lock{Placed: l.Placed, TTL: l.TTL}.AliveUntil()
}
