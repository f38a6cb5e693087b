package record

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
