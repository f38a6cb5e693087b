package loader

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
)

// warn logs what has failed, and the kind of the failure. The text of an error may name a row: it
// is logged at level Debug.
func warn(log *slog.Logger, what string, err error, fields ...any) {
	log.Warn(what, append(fields, "kind", kindOf(err))...)
	log.Debug(what, append(fields, "err", err)...)
}

// kindOf is the kind of a failure, without a row: what the library calls it, or the code of the
// store's answer.
func kindOf(err error) string {
	switch code := status.Code(err); {
	case errors.Is(err, percolator.ErrConflict):
		return "conflict"
	case errors.Is(err, percolator.ErrOutcomeUnknown):
		return "outcome unknown"
	case errors.Is(err, percolator.ErrLocked):
		return "locked"
	case errors.Is(err, percolator.ErrSnapshotTooOld):
		return "snapshot too old"
	case errors.Is(err, ErrTakenOver):
		return "taken over"
	case errors.Is(err, context.DeadlineExceeded), code == codes.DeadlineExceeded:
		return "timeout"
	case err != nil && code != codes.Unknown:
		return code.String()
	}
	return "error"
}
