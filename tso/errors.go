package tso

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrCorrupt means that a store holds a record that no server wrote: it cannot be
	// decoded, is out of range, is incomplete or contradicts itself, is older than one
	// that was read before, or its mark is below what is known to have been served. The
	// message says what was found. A server that meets it stops, and refuses to
	// start, because it cannot know what has been served. The way back is [Raise].
	ErrCorrupt = errors.New("the oracle's record is damaged")

	// ErrNoRecord means that a store holds no record although one is required
	// ([ServerConfig.RequireRecord]). If the oracle is new, initialize it
	// ([Initialize]). If it is not, its record was lost, and with it the knowledge of
	// what has been served: stop all servers, and raise the mark ([Raise]) above every
	// timestamp that may have been handed out.
	ErrNoRecord = errors.New("the oracle's record is missing: initialize a new oracle; if this one has served before, " +
		"raise its mark above everything that was served")

	// ErrFenced means that a store holds another record than the one that was to be
	// replaced: another server has written it, nothing was changed.
	ErrFenced = errors.New("the oracle's record was changed by another server")

	// ErrNotLeader means that a server does not hold the lease.
	ErrNotLeader = errors.New("this oracle does not lead")

	// ErrUnavailable means that the oracle cannot hand out timestamps at present: no
	// server could be reached, or the leader cannot reserve timestamps because its
	// store does not answer.
	ErrUnavailable = errors.New("the oracle is unavailable")

	// ErrExhausted means that the last timestamp, [MaxTimestamp], has been handed
	// out.
	ErrExhausted = errors.New("the oracle has no timestamps left")

	// ErrClosed means that the [Client] was closed, or that the [Server] ended.
	ErrClosed = errors.New("the oracle is closed")

	// ErrLimit means that a limit is reached: of sessions, of locked rows, or of topics of
	// hints.
	ErrLimit = errors.New("the limit is reached")

	// ErrUnsupported means that the oracle keeps no sessions, or is too old for hints.
	ErrUnsupported = errors.New("the oracle keeps no sessions")

	// ErrInvalidArgument means that a configuration or an argument is wrong.
	ErrInvalidArgument = errors.New("invalid argument")
)

// lasting reports whether err, of a store, will not go away by itself, as when the
// table does not exist or may not be read.
func lasting(err error) bool {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNoRecord) || errors.Is(err, ErrInvalidArgument) {
		return true
	}
	switch status.Code(err) {
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented, codes.DataLoss:
		return true
	}
	return false
}

func corruptf(format string, args ...any) error {
	return fmt.Errorf("tso: %w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// withContext makes an error that the end of ctx caused satisfy errors.Is with
// ctx.Err(): gRPC and the client libraries return a status instead.
func withContext(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
