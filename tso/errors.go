package tso

import (
	"errors"

	"github.com/gopercolator/percolator/tso/internal/record"
)

var (
	// ErrCorrupt means that a store holds a record that no server wrote: it cannot be decoded, is
	// out of range, is incomplete or contradicts itself, is older than one that was read before, or
	// its mark is below what is known to have been served. The message says what was found. A
	// server that meets it stops or refuses to start, because it cannot know what has been served.
	// [Raise] is the way back.
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

	// ErrUnsupported means that the oracle keeps no sessions, or is too old for hints.
	ErrUnsupported = errors.New("the oracle keeps no sessions")

	// ErrInvalidArgument means that a configuration or an argument is wrong.
	ErrInvalidArgument = record.ErrInvalidArgument
)
