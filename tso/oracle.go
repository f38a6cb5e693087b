// Package tso is the timestamp oracle of Percolator (section 2.3 of the paper).
//
// Every transaction asks the oracle for a start timestamp and, when it commits, for a commit
// timestamp. The protocol needs one promise (docs/internals/PROTOCOL.md, I1): a timestamp is
// greater than every timestamp that any client received before it was requested.
//
// # How the oracle keeps the promise
//
// A [Server] serves timestamps from memory, and only those that it has reserved in a durable
// [Store]: the record in the store, a [State], carries a high-water mark, and no server serves a
// timestamp above it. A server that takes over starts above the mark, so a crash skips timestamps
// and never repeats one (window.go).
//
// Reserved blocks make timestamps unique but not ordered: two servers with a block each would serve
// them in any order. So any number of servers may run, but one leads, by a lease in the same record
// (lease.go). Every write of the record is fenced: it names the exact record that it replaces. The
// leader stops serving when its lease has ended by any of its own clocks, counted from before it
// sent the write that got it (clock.go). A successor waits for the lease by its own monotonic
// clock, counted from when it last saw the record change. No two machines' clocks are compared.
//
// A [Client] keeps one request in flight, and callers that arrive in the meantime share the next
// one. So the client asks for a timestamp only after its caller has asked.
//
// # Records that servers refuse
//
// A server that started from a wrong record would hand out timestamps twice. It refuses to start,
// and reports what it found, when
//
//   - the record cannot be decoded, or does not agree with the witness that each write stores
//     beside it, for instance after a manual edit, a deletion or a partial restore ([ErrCorrupt]);
//   - the record is missing although the oracle was initialized ([Initialize],
//     [ServerConfig.RequireRecord], [ErrNoRecord]);
//   - the mark is below what is known to have been served ([ServerConfig.Served]).
//
// A running server stops when the record goes back. If no server notices that a record was lost,
// clients do: they send the last timestamp that they received, and no server hands out a lower one
// to them. [Raise] repairs the record.
//
// # The clock
//
// A [Timestamp] is close to the wall clock, and order does not depend on it: a server hands out the
// greater of the clock and its last timestamp + 1.
//
//   - When the clock stops or goes back, timestamps continue from the last one, one at a time. When
//     the last one is more than a window ahead of the clock, for instance after the correction of a
//     clock that was an hour fast, they advance at half the speed of the monotonic clock until the
//     wall clock has caught up. Stopping for the hour would keep the lock of a crashed transaction
//     alive for as long, because the oracle's time decides how old a lock is.
//   - When the clock jumps forward, timestamps follow at once. The new time lies beyond the window,
//     or the end of the lease, so the next requests wait for one write to the store and fail if the
//     write fails. The jump ages all locks: other transactions may roll back those that hold them,
//     and retention runs out earlier. It costs work, never correctness
//     (docs/internals/PROTOCOL.md, I8, I16).
//   - A change of leader jumps ahead by up to a window, because the rest of the old window is
//     skipped. Keep the window well below the time that locks live.
//
// # Sessions, row locks and hints
//
// The leader also coordinates the processes that use it: see package coordination.
package tso

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// Oracle hands out timestamps (section 2.3 of the paper).
//
// Use a [Client] in production. A [Server] in the same process is an Oracle as well.
type Oracle interface {
	// Next returns a timestamp that is greater than every timestamp that any caller in the system
	// received from a call that finished before this one started (docs/internals/PROTOCOL.md, I1).
	// No timestamp is returned twice.
	//
	// Next fails at the latest when ctx ends; the error then satisfies errors.Is with ctx.Err(). It
	// is safe for concurrent use.
	Next(ctx context.Context) (Timestamp, error)
}

// Blocks is an [Oracle] that hands out several timestamps at once, as a [Client] and a [Server] do.
// Where it is missing, each run of an observer commits by itself.
type Blocks interface {
	Oracle
	// NextBlock returns the first of n timestamps in a row, each of which is as one of Next. So no
	// other timestamp lies between them. n is 1 to 1,024; ErrInvalidArgument beyond.
	NextBlock(ctx context.Context, n int) (first Timestamp, err error)
}

// maxBlock is the most timestamps of one call of NextBlock.
const maxBlock = MaxBatch / maxShards

func checkBlock(n int) error {
	if n < 1 || n > maxBlock {
		return fmt.Errorf("tso: %w: a block of %d timestamps, not 1 to %d", ErrInvalidArgument, n, maxBlock)
	}
	return nil
}

var (
	// ErrCorrupt means that a store holds a record that no server wrote: it cannot be decoded, is
	// out of range, is incomplete or contradicts itself, is older than one that was read before, or
	// its mark is below what is known to have been served. The message says what was found. A
	// server that meets it stops or refuses to start, because it cannot know what has been served.
	// [Raise] repairs the record.
	ErrCorrupt = record.ErrCorrupt

	// ErrNoRecord means that a store holds no record although one is required
	// ([ServerConfig.RequireRecord]). If the oracle is new, initialize it ([Initialize]). Otherwise
	// its record was lost, and with it what has been served: stop all servers, and raise the mark
	// ([Raise]) above every timestamp that may have been handed out.
	ErrNoRecord = record.ErrNoRecord

	// ErrFenced means that a store holds another record than the one to be replaced, because
	// another server has written it. Nothing was changed.
	ErrFenced = record.ErrFenced

	// ErrNotLeader means that a server does not hold the lease.
	ErrNotLeader = errors.New("this oracle does not lead")

	// ErrUnavailable means that the oracle cannot hand out timestamps at present: no server can be
	// reached, or the leader cannot reserve timestamps because its store does not answer.
	ErrUnavailable = errors.New("the oracle is unavailable")

	// ErrExhausted means that the last timestamp, [MaxTimestamp], has been handed out.
	ErrExhausted = errors.New("the oracle has no timestamps left")

	// ErrClosed means that the [Client] was closed, or that the [Server] has ended.
	ErrClosed = errors.New("the oracle is closed")

	// ErrLimit means that there are too many sessions, locked rows, or topics of hints.
	ErrLimit = errors.New("the limit is reached")

	// ErrUnsupported means that the oracle does not offer the call: sessions, hints or a handover.
	ErrUnsupported = errors.New("the oracle does not support this")

	// ErrInvalidArgument means that a configuration or an argument is wrong.
	ErrInvalidArgument = record.ErrInvalidArgument
)

// NotLeaderError is the error of a server that does not lead.
type NotLeaderError struct {
	// Leader is the address of the leader as registered in the store, "" when none is known.
	Leader string
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return "tso: " + ErrNotLeader.Error() + ", and no leader is known at present"
	}
	return "tso: " + ErrNotLeader.Error() + ", " + e.Leader + " does"
}

// Is makes errors.Is(err, ErrNotLeader) true.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }
